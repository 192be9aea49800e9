/* Reads damaged texts for some seconds with every function that reads JSON; built with sanitizers, which end it where
 * anything is wrong.
 *
 *     read_damaged SECONDS SEED POWERS TEXT...
 *
 * Every buffer is exactly as large as is said, so that one byte too far is seen.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "native.h"

static uint64_t state;

static uint64_t draw(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static uint8_t *contents(const char *path, int64_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        exit(2);
    *size = ftell(file);
    rewind(file);
    uint8_t *found = malloc((size_t)*size + 1);
    if (fread(found, 1, (size_t)*size, file) != (size_t)*size)
        exit(2);
    fclose(file);
    return found;
}

static long whole_texts;

/* Scan a text, and cut it if it is an array or an object; returns whether what was found fits. */
static int scan(const uint8_t *text, int64_t length)
{
    int64_t *totals = malloc(5 * sizeof *totals), *ends = malloc(2 * sizeof *ends);
    const int64_t most = draw(4) ? 1 << 20 : (int64_t)draw(20);
    const int64_t problem = localrank_scan_json(text, length, (int64_t)draw(70), most, most, totals);
    int fits = problem >= 0 && problem <= 4 && totals[0] >= 0 && totals[0] <= length && totals[1] <= 64 &&
               totals[2] <= most + 1 && totals[3] <= most + 1;
    int64_t begin = 0;
    while (begin < length && strchr(" \n\r\t", text[begin]) && text[begin])
        begin++;
    if (!problem && begin < length && strchr("[{", text[begin])) {
        whole_texts++;
        const int64_t n_runs = (int64_t)draw(6), values = (int64_t)draw(9), size = (int64_t)draw(99);
        run *runs = malloc((size_t)n_runs * sizeof *runs + !n_runs);
        const int64_t cut = localrank_cut_json(text, begin, length, values, size, runs, n_runs, ends);
        fits &= cut >= 0 && ends[0] > begin && ends[0] <= length && ends[1] >= cut;
        for (int64_t i = 0; i < cut && i < n_runs; i++)
            fits &= runs[i].begin > begin && runs[i].begin < runs[i].end && runs[i].end < ends[0] && runs[i].elements > 0;
        free(runs);
    }
    free(totals), free(ends);
    return fits;
}

int main(int count, char **given)
{
    static const char *const PARTS[] = {"[", "]", "{", "}", "\"", "\\", ",", ":", "-", ".", "e", "null", "0", "9", " ",
                                        "\"features\":[", "1234567890", "\x80", "[[", "],["};
    if (count < 5)
        return 2;
    const time_t end = time(0) + atoi(given[1]);
    state = (uint64_t)atoll(given[2]) * 2654435769u + 1;
    int64_t size;
    const uint64_t(*powers)[2] = (const void *)contents(given[3], &size);
    long turns = 0, lifted = 0;
    for (; turns % 1000 || time(0) < end; turns++) {
        uint8_t *whole = contents(given[4 + draw((uint64_t)count - 4)], &size);
        int64_t length = draw(2) ? size : (int64_t)draw((uint64_t)size + 1);
        uint8_t *text = malloc((size_t)length + 64 * 16);
        memcpy(text, whole + draw((uint64_t)(size - length) + 1), (size_t)length);
        for (uint64_t changes = draw(6); changes && length; changes--) {
            const uint64_t at = draw((uint64_t)length);
            if (draw(3) == 0)
                text[at] = (uint8_t)draw(256);
            else {
                const char *part = PARTS[draw(sizeof PARTS / sizeof *PARTS)];
                const size_t added = strlen(part);
                memmove(text + at + added, text + at, (size_t)length - at);
                memcpy(text + at, part, added);
                length += (int64_t)added;
            }
        }
        text = realloc(text, (size_t)length + !length);
        const int64_t n_values = (int64_t)draw(draw(2) ? 8 : (uint64_t)length / 2 + 2);
        const int64_t n_spans = (int64_t)draw(draw(2) ? 3 : (uint64_t)length / 14 + 2);
        const int64_t n_outline = (int64_t)draw(2 * (uint64_t)length + 2);
        float *values = malloc((size_t)n_values * sizeof *values + !n_values);
        span *spans = malloc((size_t)n_spans * sizeof *spans + !n_spans);
        const int64_t n_places = (int64_t)draw(draw(2) ? 3 : (uint64_t)n_values + 1);
        int64_t *totals = malloc(4 * sizeof *totals), *places = malloc((size_t)n_places * sizeof *places + !n_places);
        uint8_t *outline = malloc((size_t)n_outline + !n_outline), *name = malloc(8);
        memcpy(name, "features", 8);
        const int64_t name_length = draw(2) ? 8 : 0; /* of none: members of all names */
        const int64_t found = localrank_lift_numbers(text, length, name, name_length, powers, values, n_values, spans,
                                                     n_spans, outline, n_outline, places, n_places, totals);
        if (found < -1 || found > n_spans ||
            (found >= 0 && (totals[0] > n_values || totals[1] > n_outline || totals[3] > n_places)))
            return 3;
        lifted += found > 0;
        if (!scan(text, length))
            return 4;
        free(whole), free(text), free(values), free(spans), free(totals), free(outline), free(name), free(places);
    }
    free((void *)(uintptr_t)powers);
    printf("%ld %ld %ld\n", turns, lifted, whole_texts);
    return 0;
}

/* What a JSON text holds, before any of it becomes an object, and where its parts begin and end.
 *
 * `localrank_scan_json` checks the whole grammar (RFC 8259, UTF-8 and pairs of surrogates included) and counts, and stops
 * where a limit is passed. `localrank_cut_json` cuts an array or object of a text so checked into runs of elements that
 * are short enough to be parsed at once. Both read each byte a fixed number of times, and neither calls itself.
 */
#include "native.h"
#include "text.h"

/* What `localrank_scan_json` returns. */
enum { FINE, NOT_JSON, TOO_DEEP, TOO_MANY_MEMBERS, TOO_MANY_NUMBERS };

/* One bit for each level says whether it is an object. */
enum { MOST_LEVELS = 64 };

static const uint8_t *after_number(const uint8_t *at, const uint8_t *end)
{
    at += *at == '-';
    if (!is_digit(at, end) || (*at == '0' && is_digit(at + 1, end)))
        return 0;
    while (is_digit(at, end))
        at++;
    if (at < end && *at == '.') {
        if (!is_digit(++at, end))
            return 0;
        while (is_digit(at, end))
            at++;
    }
    if (at < end && (*at | 0x20) == 'e') {
        at++;
        at += at < end && (*at == '+' || *at == '-');
        if (!is_digit(at, end))
            return 0;
        while (is_digit(at, end))
            at++;
    }
    return at;
}

/* Four hexadecimal digits, or -1. */
static int unit(const uint8_t *at, const uint8_t *end)
{
    if (end - at < 4)
        return -1;
    int found = 0;
    for (int i = 0; i < 4; i++) {
        const int digit = at[i] - '0', letter = (at[i] | 0x20) - 'a';
        if ((digit < 0 || digit > 9) && (letter < 0 || letter > 5))
            return -1;
        found = found << 4 | (digit >= 0 && digit <= 9 ? digit : letter + 10);
    }
    return found;
}

/* What comes after an escape; ``at`` is its backslash. */
static const uint8_t *after_escape(const uint8_t *at, const uint8_t *end)
{
    if (++at == end)
        return 0;
    if (*at != 'u')
        return memchr("\"\\/bfnrt", *at, 8) ? at + 1 : 0;
    const int first = unit(++at, end);
    if (first < 0 || (first & 0xfc00) == 0xdc00)
        return 0;
    at += 4;
    if ((first & 0xfc00) != 0xd800)
        return at;
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u' || (unit(at + 2, end) & 0xfc00) != 0xdc00)
        return 0;
    return at + 6;
}

/* What comes after a character of two to four bytes. */
static const uint8_t *after_character(const uint8_t *at, const uint8_t *end)
{
    const uint8_t first = *at;
    const int more = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    if (first < 0xc2 || first > 0xf4 || end - at <= more)
        return 0;
    for (int i = 1; i <= more; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    /* Not in the shortest form, a surrogate, beyond the last character. */
    if ((first == 0xe0 && at[1] < 0xa0) || (first == 0xed && at[1] > 0x9f) || (first == 0xf0 && at[1] < 0x90) ||
        (first == 0xf4 && at[1] > 0x8f))
        return 0;
    return at + more + 1;
}

typedef uint8_t bytes __attribute__((vector_size(16)));

/* Whether sixteen bytes are characters that stand for themselves in a text. */
static inline int are_themselves(const uint8_t *at)
{
    bytes here;
    memcpy(&here, at, sizeof here);
    const bytes other = (bytes)(here == '"') | (bytes)(here == '\\') | (bytes)(here < 0x20) | (here & 0x80);
    uint64_t halves[2];
    memcpy(halves, &other, sizeof halves);
    return !(halves[0] | halves[1]);
}

/* What comes after a text; ``at`` is its opening quote. */
static const uint8_t *after_text(const uint8_t *at, const uint8_t *end)
{
    for (at++; at;) {
        while (end - at >= 16 && are_themselves(at))
            at += 16;
        if (at == end || *at < 0x20)
            return 0;
        if (*at == '"')
            return at + 1;
        at = *at == '\\' ? after_escape(at, end) : *at < 0x80 ? at + 1 : after_character(at, end);
    }
    return 0;
}

static const uint8_t *after_word(const uint8_t *at, const uint8_t *end)
{
    static const char *const WORDS[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++) {
        const size_t length = strlen(WORDS[i]);
        if ((size_t)(end - at) >= length && !memcmp(at, WORDS[i], length))
            return at + length;
    }
    return 0;
}

/* Check a text and count what it holds. ``totals`` become: the place where the scan ended, the deepest level, how many
 * numbers and nulls stand in arrays, how many other values there are, and how many members objects have together. */
int64_t localrank_scan_json(const uint8_t *text, int64_t length, int64_t most_levels, int64_t most_members,
                            int64_t most_numbers, int64_t *totals)
{
    const uint8_t *const end = text + length, *at = text;
    uint64_t objects = 0; /* the lowest bit is the innermost level */
    int64_t level = 0, deepest = 0, numbers = 0, others = 0, names = 0, status = NOT_JSON;
    int is_name = 0; /* a name is to come, or the end of an object that has none yet */
    if (most_levels > MOST_LEVELS)
        most_levels = MOST_LEVELS;
    for (;;) {
        at = after_space(at, end);
        if (at == end)
            break;
        const uint8_t first = *at, *after;
        int opened = 0;
        if (is_name) {
            if (first != '"' || !(after = after_text(at, end)))
                break;
            at = after_space(after, end);
            if (at == end || *at != ':')
                break;
            at++;
            names++;
            is_name = 0;
            continue;
        }
        if (first == '[' || first == '{') {
            if (level == most_levels) {
                status = TOO_DEEP;
                break;
            }
            level++;
            deepest = level > deepest ? level : deepest;
            objects = objects << 1 | (first == '{');
            after = at + 1;
            opened = 1;
        } else if (first == '"')
            after = after_text(at, end);
        else if (first == '-' || is_digit(at, end))
            after = after_number(at, end);
        else
            after = after_word(at, end);
        if (!after)
            break;
        const int plain = first == '-' || first == 'n' || (first >= '0' && first <= '9');
        if (plain && level && !(objects & 1)) {
            if (numbers++ == most_numbers) {
                status = TOO_MANY_NUMBERS;
                break;
            }
        } else if (others++ == most_members) {
            status = TOO_MANY_MEMBERS;
            break;
        }
        at = after_space(after, end);
        if (opened) {
            if (at == end || *at != ((objects & 1) ? '}' : ']')) {
                is_name = objects & 1;
                continue;
            }
        }
        /* A value is complete, and perhaps what it stands in. */
        while (level && at < end && *at == ((objects & 1) ? '}' : ']')) {
            level--;
            objects >>= 1;
            at = after_space(at + 1, end);
        }
        if (!level) {
            status = at == end ? FINE : NOT_JSON;
            break;
        }
        if (at == end || *at != ',')
            break;
        at++;
        is_name = objects & 1;
    }
    totals[0] = at - text;
    totals[1] = deepest;
    totals[2] = numbers;
    totals[3] = others;
    totals[4] = names;
    return status;
}

/* Where a value ends; ``at`` is behind it, perhaps after space. */
static inline int64_t without_space(const uint8_t *text, const uint8_t *at)
{
    while (is_space(at[-1]))
        at--;
    return at - text;
}

/* Cut the array or object that opens at ``begin`` into runs of elements: as many of them as have ``run_values`` values
 * and ``run_bytes`` bytes together, or one. ``totals`` become its end and how many elements it has. Returns the number of
 * runs; only the first ``n_runs`` are written. Returns -1 if the text was not scanned before. */
int64_t localrank_cut_json(const uint8_t *text, int64_t begin, int64_t length, int64_t run_values, int64_t run_bytes,
                           run *runs, int64_t n_runs, int64_t *totals)
{
    /* Commas and all that opens or closes something. */
    static const uint8_t STOPS[256] = {['"'] = 1, ['['] = 1, ['{'] = 1, [']'] = 1, ['}'] = 1, [','] = 1, [':'] = 1};
    const uint8_t *const end = text + length, *at = after_space(text + begin + 1, end);
    int64_t level = 0, elements = 0, written = 0;
    run whole = {0}, one = {at - text, 0, 1, 1, 0, 0};
    if (at < end && (*at == ']' || *at == '}')) {
        totals[0] = at + 1 - text;
        totals[1] = 0;
        return 0;
    }
    for (; at < end; at++) {
        if (!STOPS[*at])
            continue;
        const uint8_t stop = *at;
        if (stop == '"') {
            if (!(at = closing(at + 1, end)))
                return -1;
        } else if (stop == ':') {
            one.names++;
            if (!level && !one.colon)
                one.colon = at - text;
        } else if (stop == '[' || stop == '{') {
            level++;
            one.values++;
        } else if (level) {
            level -= stop != ',';
            one.values += stop == ',';
        } else {
            one.end = without_space(text, at);
            elements++;
            if (whole.elements && whole.values + one.values <= run_values && one.end - whole.begin <= run_bytes) {
                whole.end = one.end;
                whole.elements++;
                whole.values += one.values;
                whole.names += one.names;
            } else {
                if (whole.elements && written++ < n_runs)
                    runs[written - 1] = whole;
                whole = one;
            }
            one = (run){after_space(at + 1, end) - text, 0, 1, 1, 0, 0};
            if (stop != ',') {
                if (written++ < n_runs)
                    runs[written - 1] = whole;
                totals[0] = at + 1 - text;
                totals[1] = elements;
                return written;
            }
        }
    }
    return -1;
}

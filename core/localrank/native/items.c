/* Rows of a published table by the ids of its items: the keyed hash of ids, the look-up, and filling in what is found.
 *
 * The hash is SipHash-2-4 [aumasson2012] under a key that each generation draws, so that nobody can choose ids that share
 * a place. A slot holds a row, counted from 1, and the lower half of its hash; 0 is an empty slot, and the last slot is
 * empty. Ids are compared whole. The table is a map of files whose lines lie far apart, so each step is done for all ids
 * before the next, and fetches what the next step reads. */
#include <string.h>

#include "native.h"

static inline uint64_t rotated(uint64_t word, int by)
{
    return word << by | word >> (64 - by);
}

static inline void mixed(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotated(v[1], 13) ^ v[0];
    v[0] = rotated(v[0], 32);
    v[2] += v[3];
    v[3] = rotated(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotated(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotated(v[1], 17) ^ v[2];
    v[2] = rotated(v[2], 32);
}

static inline uint64_t word_of(const uint8_t *text, int64_t bytes)
{
    uint64_t word = 0;
    for (int64_t i = 0; i < bytes; i++)
        word |= (uint64_t)text[i] << 8 * i;
    return word;
}

static uint64_t hash_of(const uint64_t *key, const uint8_t *text, int64_t length)
{
    uint64_t v[4] = {
        key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
        key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573),
    };
    for (int64_t at = 0; at <= length; at += 8) {
        const int whole = length - at >= 8;
        uint64_t word = word_of(text + at, whole ? 8 : length - at);
        if (!whole)
            word |= (uint64_t)length << 56;
        v[3] ^= word;
        mixed(v);
        mixed(v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++)
        mixed(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Hashes `count` texts, which lie one behind the other between `ends`; the first of these is where the first begins. */
void localrank_hash_ids(const uint64_t *key, const uint8_t *texts, const int64_t *ends, int64_t count, uint64_t *hashes)
{
    for (int64_t i = 0; i < count; i++)
        hashes[i] = hash_of(key, texts + ends[i], ends[i + 1] - ends[i]);
}

/* The next slot from `at` on that may hold the text of this hash, or an empty one. */
static inline uint64_t candidate_of(const uint32_t *slots, uint64_t at, uint64_t n_slots, uint32_t tag)
{
    while (at < n_slots - 1 && slots[2 * at] && slots[2 * at + 1] != tag)
        at++;
    return at;
}

/* Cuts a text at a separator into `count` parts; returns 0 if it has another number of them. */
static int cut(const uint8_t *text, int64_t length, int separator, int64_t *ends, int64_t count)
{
    const uint8_t *at = text, *end = text + length;
    ends[0] = 0;
    for (int64_t i = 1; i < count; i++) {
        at = memchr(at, separator, (size_t)(end - at));
        if (!at)
            return 0;
        at++;
        ends[i] = at - text;
    }
    ends[count] = length + 1; /* as if a separator followed */
    return !memchr(at, separator, (size_t)(end - at));
}

/* Finds the row of each of `count` texts, which stand between separators, -1 if there is none. Returns 0 if there are not
 * that many texts.
 *
 * `slots` has `n_slots` pairs, of which `n_places` are places of hashes; the rest is room behind the last place. `ends`
 * has room for one more than `count`, `hashes` for `count`. */
int64_t localrank_find_ids(const uint64_t *key, const uint8_t *texts, int64_t length, int64_t separator, int64_t *ends,
                           int64_t count, uint64_t *hashes, const uint32_t *slots, int64_t n_slots, int64_t n_places,
                           const uint8_t *known, const uint32_t *known_ends, int64_t n_known, int64_t *found)
{
    if (!cut(texts, length, (int)separator, ends, count))
        return 0;
    for (int64_t i = 0; i < count; i++) {
        hashes[i] = hash_of(key, texts + ends[i], ends[i + 1] - 1 - ends[i]);
        found[i] = (int64_t)((hashes[i] >> 32) * (uint64_t)n_places >> 32);
        __builtin_prefetch(slots + 2 * found[i]);
    }
    for (int64_t i = 0; i < count; i++) {
        found[i] = (int64_t)candidate_of(slots, (uint64_t)found[i], (uint64_t)n_slots, (uint32_t)hashes[i]);
        const uint32_t row = slots[2 * found[i]];
        if (row)
            __builtin_prefetch(known_ends + row - 1);
    }
    for (int64_t i = 0; i < count; i++) {
        const uint32_t row = slots[2 * found[i]];
        if (row && row <= n_known)
            __builtin_prefetch(known + known_ends[row - 1]);
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t size = ends[i + 1] - 1 - ends[i];
        uint64_t at = (uint64_t)found[i];
        found[i] = -1;
        for (uint32_t row; (row = slots[2 * at]) && row <= n_known;) {
            const uint32_t begin = known_ends[row - 1];
            if (known_ends[row] - begin == size && !memcmp(known + begin, texts + ends[i], (size_t)size)) {
                found[i] = (int64_t)row - 1;
                break;
            }
            if (at == (uint64_t)n_slots - 1)
                break;
            at = candidate_of(slots, at + 1, (uint64_t)n_slots, (uint32_t)hashes[i]);
        }
    }
    return 1;
}

/* Puts values of rows of a table where documents have none.
 *
 * Column `taken[j]` of the table goes to feature `places[j]`. If `begins[j]` is not negative, the column holds codes, and
 * the code is looked up in `codes` from there on. */
void localrank_fill_items(const int64_t *rows, int64_t count, const float *values, int64_t width, const int64_t *taken,
                          const int64_t *places, const int64_t *begins, int64_t n_taken, const float *codes,
                          float *documents, int64_t n_features)
{
    for (int64_t i = 0; i < count; i++) {
        if (i + 8 < count && rows[i + 8] >= 0)
            for (int64_t j = 0; j < width; j += 16)
                __builtin_prefetch(values + rows[i + 8] * width + j);
        if (rows[i] < 0)
            continue;
        const float *row = values + rows[i] * width;
        float *document = documents + i * n_features;
        for (int64_t j = 0; j < n_taken; j++) {
            const float value = row[taken[j]];
            if (document[places[j]] == document[places[j]] || value != value)
                continue;
            document[places[j]] = begins[j] < 0 ? value : codes[begins[j] + (int64_t)value];
        }
    }
}

/* Figure 3's look-up: from a query's projections to the training queries with most votes.
 *
 * The tables are maps of files, and the entries of a query lie far apart. So all places are computed first and fetched
 * together.
 */
#include <math.h>
#include <string.h>

#include "native.h"

enum { MOST_PLANES = 30, LINE = 16, BYTE = 256, FEW = 64 };

/* The bucket of a direction in one table, then those across the hyperplanes that it is nearest to. */
static void buckets_of(const float *projected, int64_t planes, int64_t probes, int64_t *buckets)
{
    int order[MOST_PLANES];
    int64_t code = 0;
    for (int i = 0; i < planes; i++)
        code |= (int64_t)(projected[i] >= 0) << i;
    buckets[0] = code;
    if (!probes)
        return;
    for (int i = 0; i < planes; i++) {
        int j = i;
        for (; j > 0 && fabsf(projected[order[j - 1]]) > fabsf(projected[i]); j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
    for (int64_t i = 0; i < probes; i++)
        buckets[1 + i] = code ^ ((int64_t)1 << order[i]);
}

/* If there are few training queries, each has its own slot. */
static inline uint32_t slot_of(uint32_t query, int bits, int own)
{
    return own ? query : query * UINT32_C(2654435769) >> (32 - bits);
}

/* Counts every training query's votes: for each component the number of tables in which it shares the bucket of the
 * direction, or of its negative, whichever is greater.
 *
 * `ranges` has one for each component, side, table and bucket; `slots` twice `room`, rounded up to a power of two.
 * Returns the number of candidates, which are in no order. If there may be more than `room`, returns minus their
 * largest possible number. */
int64_t localrank_votes(const float *projected, int64_t rank, int64_t tables, int64_t planes, const int32_t *offsets,
                        const int32_t *ids, int64_t n_queries, int64_t cap, int64_t probes, range *ranges,
                        int32_t *slots, candidate *found, int64_t room)
{
    if (planes > MOST_PLANES)
        return 0;
    if (probes > planes)
        probes = planes;
    const int64_t looked = 1 + probes, side = tables * looked, n_buckets = (int64_t)1 << planes;
    for (int64_t p = 0; p < rank; p++)
        for (int64_t j = 0; j < tables; j++) {
            int64_t buckets[1 + MOST_PLANES];
            buckets_of(projected + (p * tables + j) * planes, planes, probes, buckets);
            for (int64_t i = 0; i < looked; i++) {
                range *plus = ranges + 2 * p * side + j * looked + i;
                const int64_t row = (p * tables + j) * (n_buckets + 1);
                plus[0].first = row + buckets[i];
                plus[side].first = row + n_buckets - 1 - buckets[i];
                __builtin_prefetch(offsets + plus[0].first);
                __builtin_prefetch(offsets + plus[side].first);
            }
        }
    int64_t entries = 0;
    for (int64_t p = 0; p < rank; p++)
        for (int64_t i = 0; i < 2 * side; i++) {
            range *one = ranges + 2 * p * side + i;
            const int64_t table = p * tables + i % side / looked;
            int64_t first = offsets[one->first], last = offsets[one->first + 1];
            first = first < 0 ? 0 : first < n_queries ? first : n_queries;
            last = last < first ? first : last < n_queries ? last : n_queries;
            if (cap && last - first > cap)
                last = first + cap;
            *one = (range){table * n_queries + first, table * n_queries + last};
            for (int64_t j = one->first; j < one->last; j += LINE)
                __builtin_prefetch(ids + j);
            entries += last - first;
        }
    const int64_t most = entries < n_queries ? entries : n_queries;
    if (most > room)
        return -most;
    int bits = 1;
    while (((int64_t)1 << bits) < 2 * most)
        bits++;
    const int own = n_queries <= (int64_t)1 << bits;
    const uint32_t mask = (uint32_t)(((int64_t)1 << bits) - 1);
    memset(slots, 0, sizeof *slots << bits);
    int64_t count = 0;
    for (int64_t p = 0; p < rank; p++)
        for (int64_t i = 0; i < 2 * side; i++)
            for (int64_t j = ranges[2 * p * side + i].first; j < ranges[2 * p * side + i].last; j++) {
                const int32_t query = ids[j];
                if (query < 0 || query >= n_queries)
                    continue;
                uint32_t slot = slot_of((uint32_t)query, bits, own);
                while (slots[slot] && found[slots[slot] - 1].query != query)
                    slot = (slot + 1) & mask;
                if (!slots[slot]) {
                    found[count] = (candidate){query, 0, (int32_t)p, 0, 0};
                    slots[slot] = (int32_t)++count;
                }
                candidate *one = found + slots[slot] - 1;
                if (one->component != p) {
                    one->votes += one->plus > one->minus ? one->plus : one->minus;
                    one->component = (int32_t)p;
                    one->plus = one->minus = 0;
                }
                one->plus += i < side;
                one->minus += i >= side;
            }
    for (int64_t i = 0; i < count; i++)
        found[i].votes += found[i].plus > found[i].minus ? found[i].plus : found[i].minus;
    return count;
}

/* Sorts by radix; others has as much room as keys. */
static void sort(uint64_t *keys, uint64_t *others, int64_t count)
{
    uint64_t *from = keys, *to = others, differ = 0;
    for (int64_t i = 0; i < count; i++)
        differ |= keys[i] ^ keys[0];
    for (int shift = 0; shift < 64; shift += 8) {
        if (!(differ >> shift & (BYTE - 1)))
            continue;
        int64_t begins[BYTE] = {0}, begin = 0;
        for (int64_t i = 0; i < count; i++)
            begins[from[i] >> shift & (BYTE - 1)]++;
        for (int i = 0; i < BYTE; i++) {
            const int64_t here = begins[i];
            begins[i] = begin;
            begin += here;
        }
        for (int64_t i = 0; i < count; i++)
            to[begins[from[i] >> shift & (BYTE - 1)]++] = from[i];
        uint64_t *swapped = from;
        from = to;
        to = swapped;
    }
    if (from != keys)
        memcpy(keys, from, (size_t)count * sizeof *keys);
}

/* The share of the possible votes that a candidate did not get, in units of 1 / 65,535. */
static inline uint16_t lost(int64_t votes, int64_t shared, int64_t tables)
{
    return (uint16_t)(65535 - 65535 * votes / ((shared > 1 ? shared : 1) * tables));
}

/* Writes the candidates with the largest share of the votes that they could win: best first, equal ones in increasing
 * order. If all are wanted, all in increasing order. `ranks` is null if all are at least that of the query. `keys` has
 * room for twice as many as there are candidates. Returns how many were written. */
int64_t localrank_most_votes(const candidate *found, int64_t count, const uint16_t *ranks, int64_t n_queries,
                             int64_t rank, int64_t tables, int64_t wanted, uint64_t *keys, int64_t *chosen)
{
    uint16_t known[FEW];
    for (int64_t votes = 0; votes < FEW; votes++)
        known[votes] = lost(votes, rank, tables);
    const int all = count <= wanted;
    for (int64_t i = 0; i < count; i++) {
        const int64_t query = found[i].query >= 0 && found[i].query < n_queries ? found[i].query : 0;
        const int64_t votes = found[i].votes;
        uint64_t key = (uint64_t)query;
        if (!all) {
            if (ranks && ranks[query] < rank)
                key |= (uint64_t)lost(votes, ranks[query], tables) << 32;
            else
                key |= (uint64_t)(votes >= 0 && votes < FEW ? known[votes] : lost(votes, rank, tables)) << 32;
        }
        keys[i] = key;
    }
    sort(keys, keys + count, count);
    const int64_t kept = all ? count : wanted;
    for (int64_t i = 0; i < kept; i++)
        chosen[i] = (int64_t)(keys[i] & UINT32_MAX);
    return kept;
}

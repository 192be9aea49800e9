/* The mid-rank percentile of every value of a query among those of its feature.
 *
 * Sixteen features are sorted abreast by a network of comparisons (Knuth, The Art of Computer Programming 5.2.2,
 * algorithm M): the compared places do not depend on the values. So sixteen columns take the same steps, and the
 * compiler can use vectors. A value and its document are one key, so that every document finds its place. */
#include <math.h>
#include <string.h>

#include "lanes.h"
#include "native.h"

/* Map a finite float to a whole number that is ordered as the floats are; both zeros to the same. */
INLINE int64_t key_of(float value, int64_t document)
{
    const float plain = value + 0.0f;
    int32_t bits;
    memcpy(&bits, &plain, sizeof bits);
    bits ^= (int32_t)((uint32_t)(bits >> 31) >> 1);
    return (int64_t)((uint64_t)(int64_t)bits << 32 | (uint64_t)document);
}

INLINE float value_of(int64_t key)
{
    int32_t bits = (int32_t)(key >> 32);
    bits ^= (int32_t)((uint32_t)(bits >> 31) >> 1);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE void exchange(int64_t *restrict low, int64_t *restrict high)
{
    for (int k = 0; k < LANES; k++) {
        const int64_t a = low[k], b = high[k];
        low[k] = a < b ? a : b;
        high[k] = a < b ? b : a;
    }
}

INLINE void sort(int64_t *keys, int64_t n_docs)
{
    int64_t top = 1;
    while (2 * top < n_docs)
        top *= 2;
    for (int64_t p = top; p > 0; p /= 2)
        for (int64_t q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {
            for (int64_t run = r; run < n_docs - d; run += 2 * p)
                for (int64_t i = run; i < run + p && i < n_docs - d; i++)
                    exchange(keys + i * LANES, keys + (i + d) * LANES);
            if (q == p)
                break;
        }
}

/* `space` has room for 16 * n_docs keys. A feature whose spread is `rounding` of its size is constant and becomes 1/2. */
EVERY_PROCESSOR void localrank_percentiles(const float *documents, int64_t n_docs, int64_t n_features, double rounding,
                                           int64_t *space, float *found)
{
    for (int64_t first = 0; first < n_features; first += LANES) {
        const int64_t here = n_features - first < LANES ? n_features - first : LANES;
        for (int64_t i = 0; i < n_docs; i++)
            for (int64_t k = 0; k < LANES; k++)
                space[i * LANES + k] = k < here ? key_of(documents[i * n_features + first + k], i) : 0;
        if (n_docs > 1)
            sort(space, n_docs);
        for (int64_t k = 0; k < here; k++) {
            const int64_t *keys = space + k;
            const float low = value_of(keys[0]), high = value_of(keys[(n_docs - 1) * LANES]);
            const double spread = (double)high - low;
            const float size = fabsf(low) > fabsf(high) ? fabsf(low) : fabsf(high);
            const int constant = spread <= (float)rounding * size;
            for (int64_t begin = 0, end; begin < n_docs; begin = end) {
                for (end = begin + 1; end < n_docs && keys[end * LANES] >> 32 == keys[begin * LANES] >> 32;)
                    end++;
                const float share = constant ? 0.5f : (float)(begin + end) / (float)(2 * n_docs);
                for (int64_t i = begin; i < end; i++)
                    found[(int64_t)(uint32_t)keys[i * LANES] * n_features + first + k] = share;
            }
        }
    }
}

/* Eq. 5 between one query and training queries as they lie in memory, and which of them is nearest.
 *
 * A row of directions is read in whole vectors: what stands behind its last feature, the beginning of the next row, is
 * multiplied by zeros. Only the very last row has nothing behind it.
 *
 * Where there is a sketch of the training queries (localrank.sketch), only those are compared that by its bounds
 * can be the nearest, or the nearest of another cluster: the answer is that of comparing all, to the bit.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__) && !defined(LOCALRANK_ONE_TARGET)
#include <immintrin.h>
#endif

#include "lanes.h"

/* What is longer than that the processor goes on to fetch by itself. */
enum { AHEAD = 4, MOST_ASKED = 1024 };
/* The query's own steps, of which an int16 holds a unit vector's. */
enum { PARTS = 1 << 14 };

typedef struct {
    const float *directions;
    const int64_t *ranks;
    int64_t n_queries, n_components, n_features;
} training;

typedef struct {
    const float *padded; /* each direction followed by zeros up to whole vectors */
    int64_t rank, width;
} question;

typedef struct {
    int64_t place, cluster;
    double similarity, other; /* of the nearest, and of the nearest of any other cluster */
} nearest;

/* --- One training query. --- */

typedef float half __attribute__((vector_size(32)));
typedef float quarter __attribute__((vector_size(16)));

/* In the order of sum_of_lanes, without a way through memory. */
INLINE float sum(lanes all)
{
    const union { lanes whole; half parts[2]; } halves = {all};
    const union { half whole; quarter parts[2]; } quarters = {halves.parts[0] + halves.parts[1]};
    const quarter last = quarters.parts[0] + quarters.parts[1];
    return (last[0] + last[2]) + (last[1] + last[3]);
}

INLINE lanes at(const float *numbers)
{
    return *(const lanes_anywhere *)numbers;
}

/* readable: how many numbers there are from the row's first on. */
INLINE float dot(const float *row, const float *asked, int64_t width, int64_t readable)
{
    lanes even = {0}, odd = {0}, last = {0};
    const int64_t inside = width <= readable ? width : width - LANES;
    int64_t j = 0;
    for (; j + 2 * LANES <= inside; j += 2 * LANES) {
        even += at(row + j) * at(asked + j);
        odd += at(row + j + LANES) * at(asked + j + LANES);
    }
    for (; j < width; j += LANES) {
        if (j < inside)
            last = at(row + j);
        else {
            last = (lanes){0};
            memcpy(&last, row + j, (size_t)(readable - j) * sizeof *row);
        }
        last *= at(asked + j);
        if (j / LANES % 2)
            odd += last;
        else
            even += last;
    }
    return sum(even + odd);
}

INLINE double alike(const training *all, const question *asked, int64_t query)
{
    const int64_t step = all->n_features, end = all->n_queries * all->n_components * step;
    double sum = 0;
    for (int64_t p = 0; p < all->n_components; p++) {
        const int64_t begin = (query * all->n_components + p) * step;
        sum += fabsf(dot(all->directions + begin, asked->padded + p * asked->width, asked->width, end - begin));
    }
    const int64_t shared = all->ranks[query] < asked->rank ? all->ranks[query] : asked->rank;
    sum /= (double)(shared > 1 ? shared : 1);
    return sum >= 1 ? 1 : sum; /* unit vectors in float32 may have a product slightly above one */
}

INLINE question padded(const float *directions, int64_t rank, const training *all, float *scratch)
{
    const int64_t width = (all->n_features + LANES - 1) / LANES * LANES;
    for (int64_t p = 0; p < all->n_components; p++) {
        memcpy(scratch + p * width, directions + p * all->n_features, (size_t)all->n_features * sizeof *scratch);
        for (int64_t j = all->n_features; j < width; j++)
            scratch[p * width + j] = 0;
    }
    return (question){scratch, rank, width};
}

/* --- Some, or all. --- */

INLINE void ask_for(const training *all, int64_t query)
{
    const int64_t size = all->n_components * all->n_features;
    const float *first = all->directions + query * size;
    for (int64_t j = 0; j < size && j < MOST_ASKED; j += LANES)
        __builtin_prefetch(first + j);
}

/* Keeps the nearest, of equal ones the first, and what any other cluster has. */
INLINE void consider(nearest *found, int64_t place, int64_t cluster, double similarity)
{
    if (similarity > found->similarity || (similarity == found->similarity && place < found->place)) {
        if (cluster != found->cluster && found->place >= 0)
            found->other = found->similarity;
        found->place = place;
        found->cluster = cluster;
        found->similarity = similarity;
    } else if (cluster != found->cluster && similarity > found->other)
        found->other = similarity;
}

INLINE int64_t query_at(const int64_t *which, int64_t place, int64_t n_queries)
{
    const int64_t query = which ? which[place] : place;
    return query >= 0 && query < n_queries ? query : 0;
}

/* scratch: n_components rows of whole vectors. */
EVERY_PROCESSOR void localrank_similarities(const float *directions, const int64_t *ranks, int64_t n_queries,
                                            int64_t n_components, int64_t n_features, const float *query, int64_t rank,
                                            float *scratch, double *similarities)
{
    const training all = {directions, ranks, n_queries, n_components, n_features};
    const question asked = padded(query, rank, &all, scratch);
    for (int64_t i = 0; i < n_queries; i++)
        similarities[i] = alike(&all, &asked, i);
}

INLINE void nearest_of(const training *all, const question *asked, const int64_t *clusters, const int64_t *which,
                       int64_t count, nearest *found)
{
    for (int64_t place = 0; place < count; place++) {
        if (which && place + AHEAD < count)
            ask_for(all, query_at(which, place + AHEAD, all->n_queries));
        const int64_t query = query_at(which, place, all->n_queries);
        consider(found, place, clusters[query], alike(all, asked, query));
    }
}

/* which: the training queries that are compared, all where it is null. */
EVERY_PROCESSOR void localrank_nearest(const float *directions, const int64_t *ranks, const int64_t *clusters,
                                       int64_t n_queries, int64_t n_components, int64_t n_features, const float *query,
                                       int64_t rank, const int64_t *which, int64_t count, float *scratch,
                                       nearest *found)
{
    const training all = {directions, ranks, n_queries, n_components, n_features};
    const question asked = padded(query, rank, &all, scratch);
    *found = (nearest){-1, -1, -INFINITY, -INFINITY};
    nearest_of(&all, &asked, clusters, which, count, found);
}

/* --- All, by their sketch. --- */

/* The products of one direction of the query with those of sixteen training queries. Whole numbers, so that every
 * processor has the same. */
typedef void multiplier(const int8_t *codes, const int16_t *asked, int64_t pairs, int32_t *products);

static void multiply(const int8_t *codes, const int16_t *asked, int64_t pairs, int32_t *products)
{
    int32_t sums[LANES] = {0};
    for (int64_t j = 0; j < pairs; j++)
        for (int i = 0; i < LANES; i++)
            sums[i] += codes[2 * (LANES * j + i)] * asked[2 * j] + codes[2 * (LANES * j + i) + 1] * asked[2 * j + 1];
    memcpy(products, sums, sizeof sums);
}

#if defined(__x86_64__) && !defined(LOCALRANK_ONE_TARGET)
/* Compilers do not find the instruction that multiplies and adds pairs. */
__attribute__((target("avx2"))) static void multiply_by_8(const int8_t *codes, const int16_t *asked, int64_t pairs,
                                                          int32_t *products)
{
    __m256i low = _mm256_setzero_si256(), high = _mm256_setzero_si256();
    for (int64_t j = 0; j < pairs; j++) {
        int32_t pair;
        memcpy(&pair, asked + 2 * j, sizeof pair);
        const __m256i both = _mm256_set1_epi32(pair);
        const __m128i *here = (const __m128i *)(codes + 2 * LANES * j);
        low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128(here)), both));
        high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128(here + 1)), both));
    }
    _mm256_storeu_si256((__m256i *)products, low);
    _mm256_storeu_si256((__m256i *)products + 1, high);
}

__attribute__((target("avx512f,avx512bw"))) static void multiply_by_16(const int8_t *codes, const int16_t *asked,
                                                                       int64_t pairs, int32_t *products)
{
    __m512i even = _mm512_setzero_si512(), odd = _mm512_setzero_si512();
    for (int64_t j = 0; j < pairs; j++) {
        int32_t pair;
        memcpy(&pair, asked + 2 * j, sizeof pair);
        const __m256i here = _mm256_loadu_si256((const __m256i *)(codes + 2 * LANES * j));
        const __m512i product = _mm512_madd_epi16(_mm512_cvtepi8_epi16(here), _mm512_set1_epi32(pair));
        if (j % 2)
            odd = _mm512_add_epi32(odd, product);
        else
            even = _mm512_add_epi32(even, product);
    }
    _mm512_storeu_si512(products, _mm512_add_epi32(even, odd));
}

static multiplier *fastest(void)
{
    if (__builtin_cpu_supports("avx512bw"))
        return multiply_by_16;
    return __builtin_cpu_supports("avx2") ? multiply_by_8 : multiply;
}
#else
static multiplier *fastest(void)
{
    return multiply;
}
#endif

typedef struct {
    const int8_t *codes;
    const float *scales, *errors, *ranks;
} sketch;

INLINE double length(const float *row, int64_t count)
{
    double squares = 0;
    for (int64_t j = 0; j < count; j++)
        squares += (double)row[j] * row[j];
    return sqrt(squares);
}

/* Writes what no training query's similarity is above; returns 0 where the query's directions are longer than they
 * should be, for which nothing is said. The products err by the sketch's and the query's own rounding, by Cauchy and
 * Schwarz; what is left covers the rounding of sums in float32, there and here. */
INLINE int bounds_of(const training *all, const sketch *drawn, double reach, const float *query, int64_t rank,
                     int16_t *asked, float *bounds)
{
    const int64_t n_features = all->n_features, pairs = (n_features + 1) / 2;
    double longest = 0, rounding = 0;
    for (int64_t p = 0; p < all->n_components; p++) {
        const float *row = query + p * n_features;
        const double size = length(row, n_features);
        if (!(size <= 1.001))
            return 0;
        longest = size > longest ? size : longest;
        asked[2 * pairs * (p + 1) - 1] = 0;
        double squares = 0;
        for (int64_t j = 0; j < n_features; j++) {
            const float part = rintf(row[j] * PARTS);
            const double off = row[j] - (double)part / PARTS;
            asked[2 * pairs * p + j] = (int16_t)part;
            squares += off * off;
        }
        rounding += reach * sqrt(squares) + ldexp((double)(n_features + all->n_components + 16), -22);
    }
    const float allowed = (float)rounding, longer = (float)longest * 1.0001F;
    multiplier *const products_of = fastest();
    for (int64_t first = 0; first < all->n_queries; first += LANES) {
        float sums[LANES] = {0};
        for (int64_t p = 0; p < all->n_components; p++) {
            int32_t products[LANES];
            const int64_t row = first / LANES * all->n_components + p;
            products_of(drawn->codes + row * pairs * 2 * LANES, asked + 2 * pairs * p, pairs, products);
            for (int i = 0; i < LANES; i++)
                sums[i] += drawn->scales[row * LANES + i] * fabsf((float)products[i]);
        }
        for (int i = 0; i < LANES; i++) {
            const float theirs = drawn->ranks[first + i], shared = theirs < (float)rank ? theirs : (float)rank;
            const float above = sums[i] / PARTS + drawn->errors[first + i] * longer + allowed;
            bounds[first + i] = above / (shared > 1 ? shared : 1);
        }
    }
    return 1;
}

/* The largest of each sixteen. */
INLINE void tops_of(const float *bounds, int64_t count, float *tops)
{
    for (int64_t first = 0; first < count; first += LANES) {
        float most[LANES];
        memcpy(most, bounds + first, sizeof most);
        for (int width = LANES / 2; width > 0; width /= 2)
            for (int i = 0; i < width; i++)
                most[i] = most[i] > most[i + width] ? most[i] : most[i + width];
        tops[first / LANES] = most[0];
    }
}

INLINE int64_t highest(const float *bounds, const float *tops, const int64_t *clusters, int64_t count, int64_t but)
{
    int64_t place = -1;
    float most = -INFINITY;
    for (int64_t first = 0; first < count; first += LANES)
        if (tops[first / LANES] > most)
            for (int64_t i = first; i < first + LANES && i < count; i++)
                if (bounds[i] > most && clusters[i] != but) {
                    most = bounds[i];
                    place = i;
                }
    return place;
}

/* scratch: n_components rows of whole vectors, then as many rows of whole pairs, then whole vectors of bounds
 * and the largest of each. Returns how many training queries were compared. */
EVERY_PROCESSOR int64_t localrank_nearest_by_sketch(const float *directions, const int64_t *ranks,
                                                    const int64_t *clusters, int64_t n_queries, int64_t n_components,
                                                    int64_t n_features, const int8_t *codes, const float *scales,
                                                    const float *errors, const float *known_ranks, double reach,
                                                    const float *query, int64_t rank, float *scratch, nearest *found)
{
    const training all = {directions, ranks, n_queries, n_components, n_features};
    const sketch drawn = {codes, scales, errors, known_ranks};
    const question asked = padded(query, rank, &all, scratch);
    float *const rows = scratch + n_components * asked.width;
    float *const bounds = rows + n_components * ((n_features + 1) / 2);
    *found = (nearest){-1, -1, -INFINITY, -INFINITY};
    if (!bounds_of(&all, &drawn, reach, query, rank, (int16_t *)rows, bounds)) {
        nearest_of(&all, &asked, clusters, 0, n_queries, found);
        return n_queries;
    }
    float *const tops = bounds + (n_queries + LANES - 1) / LANES * LANES;
    tops_of(bounds, n_queries, tops);
    int64_t compared = 0;
    for (int64_t round = 0; round < 2; round++) { /* who is likely, so that few others need to be looked at */
        const int64_t likely = highest(bounds, tops, clusters, n_queries, found->cluster);
        if (likely < 0)
            break;
        consider(found, likely, clusters[likely], alike(&all, &asked, likely));
        compared++;
    }
    for (int64_t first = 0; first < n_queries; first += LANES) {
        if (tops[first / LANES] < found->other)
            continue;
        for (int64_t i = first; i < first + LANES && i < n_queries; i++) {
            if (bounds[i] < found->other || (bounds[i] < found->similarity && clusters[i] == found->cluster))
                continue;
            consider(found, i, clusters[i], alike(&all, &asked, i));
            compared++;
        }
    }
    return compared;
}

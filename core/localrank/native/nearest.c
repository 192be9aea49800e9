/* Eq. 5 between one query and training queries as they lie in memory, and which of them is nearest.
 *
 * A row of directions is read in whole vectors. The numbers behind its last feature belong to the next row and are
 * multiplied by zeros. There is nothing behind the very last row, so it is copied.
 */
#include <math.h>
#include <string.h>

#include "lanes.h"
#include "native.h"

/* The processor fetches the rest of a longer row by itself. */
enum { AHEAD = 4, MOST_ASKED = 1024 };

typedef struct {
    const float *directions;
    const int64_t *ranks;
    int64_t n_queries, n_components, n_features;
} training;

typedef struct {
    const float *padded; /* each direction followed by zeros up to whole vectors */
    int64_t rank, width;
} question;

typedef float half __attribute__((vector_size(32)));
typedef float quarter __attribute__((vector_size(16)));

/* The order of sum_of_lanes, in registers: a scan takes 0.6 times as long as with an array. */
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

/* `readable` numbers may be read from the beginning of the row on. */
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

INLINE void ask_for(const training *all, int64_t query)
{
    const int64_t size = all->n_components * all->n_features;
    const float *first = all->directions + query * size;
    for (int64_t j = 0; j < size && j < MOST_ASKED; j += LANES)
        __builtin_prefetch(first + j);
}

/* Keeps the nearest (the first of equal ones) and the similarity of the nearest of any other cluster. */
INLINE void consider(neighbour *found, int64_t place, int64_t cluster, double similarity)
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

/* Compares the training queries in `which`, or all if that is null. `scratch` has n_components rows of whole vectors. */
EVERY_PROCESSOR void localrank_nearest(const float *directions, const int64_t *ranks, const int64_t *clusters,
                                       int64_t n_queries, int64_t n_components, int64_t n_features, const float *query,
                                       int64_t rank, const int64_t *which, int64_t count, float *scratch,
                                       neighbour *found)
{
    const training all = {directions, ranks, n_queries, n_components, n_features};
    const question asked = padded(query, rank, &all, scratch);
    *found = (neighbour){-1, -1, -INFINITY, -INFINITY};
    for (int64_t place = 0; place < count; place++) {
        if (which && place + AHEAD < count)
            ask_for(&all, query_at(which, place + AHEAD, n_queries));
        const int64_t one = query_at(which, place, n_queries);
        consider(found, place, clusters[one], alike(&all, &asked, one));
    }
}

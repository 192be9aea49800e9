/* One query's documents, [n_docs, n_features], put on one scale and compared with what training saw.
 *
 * Every pass is along rows. The sums of a column are made in the order of the documents, as numpy makes them. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "lanes.h"
#include "native.h"

enum { DONE = 0, NOT_FINITE = 1, OUT_OF_RANGE = 2 };

/* Find the least and the greatest value of each feature; return whether all are finite. */
INLINE int extremes(const float *documents, int64_t n_docs, int64_t n_features, float *restrict low,
                    float *restrict high)
{
    /* Infinity and NaN times zero are NaN, which stays. */
    float tainted[LANES] = {0};
    memcpy(low, documents, (size_t)n_features * sizeof *low);
    memcpy(high, documents, (size_t)n_features * sizeof *high);
    for (int64_t i = 0; i < n_docs; i++) {
        const float *restrict row = documents + i * n_features;
        int64_t j = 0;
        for (; j + LANES <= n_features; j += LANES)
            for (int k = 0; k < LANES; k++) {
                const float value = row[j + k];
                low[j + k] = value < low[j + k] ? value : low[j + k];
                high[j + k] = value > high[j + k] ? value : high[j + k];
                tainted[k] += 0 * value;
            }
        for (; j < n_features; j++) {
            low[j] = row[j] < low[j] ? row[j] : low[j];
            high[j] = row[j] > high[j] ? row[j] : high[j];
            tainted[0] += 0 * row[j];
        }
    }
    return sum_of_lanes(tainted) == 0;
}

INLINE void average(const float *documents, int64_t n_docs, int64_t n_features, float *restrict mean)
{
    memset(mean, 0, (size_t)n_features * sizeof *mean);
    for (int64_t i = 0; i < n_docs; i++) {
        const float *restrict row = documents + i * n_features;
        for (int64_t j = 0; j < n_features; j++)
            mean[j] += row[j];
    }
    for (int64_t j = 0; j < n_features; j++)
        mean[j] /= (float)n_docs;
}

/* Put each feature on the scale of the query: from 0 to 1 or, if `standard`, to mean 0 and deviation 1. A feature whose
 * spread is at most `rounding` of its size is constant and becomes 0. `space` has room for 4 * n_features floats.
 *
 * Returns DONE; NOT_FINITE if a value is missing or infinite; OUT_OF_RANGE if float32 cannot hold a difference. Only
 * DONE fills `scaled`. */
EVERY_PROCESSOR int64_t localrank_scale(const float *documents, int64_t n_docs, int64_t n_features, int64_t standard,
                                        double rounding, float *space, float *scaled)
{
    if (n_docs < 1 || n_features < 1)
        return DONE;
    float *restrict low = space, *restrict high = low + n_features, *restrict scale = high + n_features,
          *restrict keep = scale + n_features;
    if (!extremes(documents, n_docs, n_features, low, high))
        return NOT_FINITE;
    int out_of_range = 0;
    for (int64_t j = 0; j < n_features; j++) {
        const double least = low[j], most = high[j], spread = most - least;
        const float size = fabsf(low[j]) > fabsf(high[j]) ? fabsf(low[j]) : fabsf(high[j]);
        const int constant = spread <= (float)rounding * size;
        const double by = constant ? 1 : spread;
        out_of_range |= by > FLT_MAX || by < FLT_MIN;
        scale[j] = (float)by;
        keep[j] = !constant;
        if (standard)
            low[j] = (float)(least + spread / 2);
        else
            low[j] += 0.0f; /* the least value may be either zero; make it the positive one */
    }
    if (out_of_range)
        return OUT_OF_RANGE;
    for (int64_t i = 0; i < n_docs; i++) {
        const float *restrict row = documents + i * n_features;
        float *restrict out = scaled + i * n_features;
        for (int64_t j = 0; j < n_features; j++)
            out[j] = keep[j] != 0 ? (row[j] - low[j]) / scale[j] : 0;
    }
    if (!standard)
        return DONE;
    float *restrict mean = low, *restrict squares = high;
    average(scaled, n_docs, n_features, mean);
    memset(squares, 0, (size_t)n_features * sizeof *squares);
    for (int64_t i = 0; i < n_docs; i++) {
        float *restrict out = scaled + i * n_features;
        for (int64_t j = 0; j < n_features; j++) {
            out[j] -= mean[j];
            squares[j] += out[j] * out[j];
        }
    }
    for (int64_t j = 0; j < n_features; j++)
        scale[j] = keep[j] != 0 ? sqrtf(squares[j] / (float)n_docs) : 1;
    for (int64_t i = 0; i < n_docs; i++) {
        float *restrict out = scaled + i * n_features;
        for (int64_t j = 0; j < n_features; j++)
            out[j] /= scale[j];
    }
    return DONE;
}

/* Measure how far every value is below the greatest of its feature, in units of `scale`. A feature that is constant, as
 * above, becomes 0. `space` has room for 4 * n_features floats.
 *
 * Returns DONE; NOT_FINITE if a value is missing or infinite; OUT_OF_RANGE if float32 cannot hold a unit or a distance.
 * Only DONE fills `found`. */
EVERY_PROCESSOR int64_t localrank_behind_best(const float *documents, int64_t n_docs, int64_t n_features,
                                              const double *scale, double rounding, float *space, float *found)
{
    if (n_docs < 1 || n_features < 1)
        return DONE;
    float *restrict low = space, *restrict high = low + n_features, *restrict unit = high + n_features,
          *restrict keep = unit + n_features;
    if (!extremes(documents, n_docs, n_features, low, high))
        return NOT_FINITE;
    int out_of_range = 0;
    for (int64_t j = 0; j < n_features; j++) {
        const double spread = (double)high[j] - low[j];
        const float size = fabsf(low[j]) > fabsf(high[j]) ? fabsf(low[j]) : fabsf(high[j]);
        keep[j] = spread > (float)rounding * size;
        const int tame = scale[j] <= FLT_MAX && scale[j] >= FLT_MIN;
        out_of_range |= !tame;
        unit[j] = tame ? (float)scale[j] : 1;
        /* The distance of the least value is the largest. */
        out_of_range |= !((high[j] - low[j]) / unit[j] <= FLT_MAX);
    }
    if (out_of_range)
        return OUT_OF_RANGE;
    for (int64_t i = 0; i < n_docs; i++) {
        const float *restrict row = documents + i * n_features;
        float *restrict out = found + i * n_features;
        for (int64_t j = 0; j < n_features; j++)
            out[j] = keep[j] != 0 ? fabsf(high[j] - row[j]) / unit[j] : 0; /* of two zeros, the positive one */
    }
    return DONE;
}

/* Count the values below `least` or above `most` of their feature. */
EVERY_PROCESSOR int64_t localrank_out_of_range(const float *documents, int64_t n_docs, int64_t n_features,
                                               const float *restrict least, const float *restrict most)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n_docs; i++) {
        const float *restrict row = documents + i * n_features;
        int32_t here = 0;
        for (int64_t j = 0; j < n_features; j++)
            here += (row[j] < least[j]) | (row[j] > most[j]);
        count += here;
    }
    return count;
}

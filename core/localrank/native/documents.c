/* One query's documents, [n_docs, n_features], before anything is learnt or said of them: put on one scale, centred, and
 * compared with what training saw. Every pass is along rows; what belongs to a column is added up in the order of the
 * documents, as numpy does it. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "lanes.h"

enum { DONE = 0, NOT_FINITE = 1, BEYOND = 2 };

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

/* Put each feature on the scale of the query: from 0 to 1, or, where `standard`, to mean 0 and deviation 1. A feature
 * whose spread is `rounding` of its size is constant and becomes 0. `space` has room for 4 * n_features floats.
 *
 * Returns DONE, NOT_FINITE where a value is missing or infinite, BEYOND where a difference is beyond float32: then
 * nothing is said of `scaled`. */
EVERY_PROCESSOR int64_t localrank_scale(const float *documents, int64_t n_docs, int64_t n_features, int64_t standard,
                                        double rounding, float *space, float *scaled)
{
    if (n_docs < 1 || n_features < 1)
        return DONE;
    float *restrict low = space, *restrict high = low + n_features, *restrict scale = high + n_features,
          *restrict keep = scale + n_features;
    if (!extremes(documents, n_docs, n_features, low, high))
        return NOT_FINITE;
    int beyond = 0;
    for (int64_t j = 0; j < n_features; j++) {
        const double least = low[j], most = high[j], spread = most - least;
        const float size = fabsf(low[j]) > fabsf(high[j]) ? fabsf(low[j]) : fabsf(high[j]);
        const int constant = spread <= (float)rounding * size;
        const double by = constant ? 1 : spread;
        beyond |= by > FLT_MAX || by < FLT_MIN;
        scale[j] = (float)by;
        keep[j] = !constant;
        if (standard)
            low[j] = (float)(least + spread / 2);
    }
    if (beyond)
        return BEYOND;
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

/* Count the values outside what training saw. */
EVERY_PROCESSOR int64_t localrank_outside(const float *documents, int64_t n_docs, int64_t n_features,
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

INLINE float squared_length(const float *row, int64_t count)
{
    float parts[LANES] = {0};
    int64_t j = 0;
    for (; j + LANES <= count; j += LANES)
        for (int k = 0; k < LANES; k++)
            parts[k] += row[j + k] * row[j + k];
    for (int k = 0; j + k < count; k++)
        parts[k] += row[j + k] * row[j + k];
    return sum_of_lanes(parts);
}

/* Subtract the documents' mean. The mean is off by rounding of where the documents lie; what is left after subtracting it
 * is rounding of how far they spread, and is subtracted as well where it is more than `tolerance` of their size.
 *
 * `space` has room for 2 * n_features floats. Returned in `sizes`: the squares of all centred numbers together, and the
 * square of the mean's length. */
EVERY_PROCESSOR void localrank_centre(const float *documents, int64_t n_docs, int64_t n_features, double tolerance,
                                      float *space, float *centred, double *sizes)
{
    float *restrict mean = space, *restrict rest = space + n_features;
    average(documents, n_docs, n_features, mean);
    memset(rest, 0, (size_t)n_features * sizeof *rest);
    for (int64_t i = 0; i < n_docs; i++) {
        const float *restrict row = documents + i * n_features;
        float *restrict out = centred + i * n_features;
        for (int64_t j = 0; j < n_features; j++) {
            out[j] = row[j] - mean[j];
            rest[j] += out[j];
        }
    }
    for (int64_t j = 0; j < n_features; j++)
        rest[j] /= (float)n_docs;
    double size = squared_length(centred, n_docs * n_features);
    if ((double)n_docs * squared_length(rest, n_features) > tolerance * size) {
        for (int64_t i = 0; i < n_docs; i++) {
            float *restrict out = centred + i * n_features;
            for (int64_t j = 0; j < n_features; j++)
                out[j] -= rest[j];
        }
        size = squared_length(centred, n_docs * n_features);
    }
    sizes[0] = size;
    sizes[1] = squared_length(mean, n_features);
}

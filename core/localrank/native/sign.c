/* The signature of one query: the leading principal directions of its documents, in float32.
 *
 * localrank/features/principal.py says what is computed, and does the same in numpy, step by step. numpy makes the
 * scatter between the two functions; its BLAS may be newer than that of scipy, which makes the other products. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "lanes.h"
#include "native.h"

enum { DONE = 0, IMPRECISE = 1, UNSOLVED = 2 };

static float sum_of_squares(const blas *by, const float *values, int count)
{
    const int step = 1;
    return by->dot(&count, values, &step, values, &step);
}

/* Add up rows, each times its weight. */
static void weighted_rows(const blas *by, const float *rows, int n_rows, int width, const float *weights, float *sum)
{
    const int step = 1;
    const float one = 1, none = 0;
    if (width == 1)
        *sum = by->dot(&n_rows, weights, &step, rows, &step);
    else
        by->gemv("N", &width, &n_rows, &one, rows, &width, weights, &step, &none, sum, &step);
}

INLINE void subtract(const float *from, int64_t n_docs, int64_t n_features, const float *restrict mean, float *to)
{
    for (int64_t i = 0; i < n_docs; i++) {
        const float *row = from + i * n_features;
        float *out = to + i * n_features;
        for (int64_t j = 0; j < n_features; j++)
            out[j] = row[j] - mean[j];
    }
}

/* Put documents around their mean. `found` becomes the sum of their squares, and the least eigenvalue of the scatter that
 * is clear of rounding. `scratch` has room for n_docs + 2 * n_features floats.
 *
 * Returns DONE; IMPRECISE if float32 is not precise enough. */
EVERY_PROCESSOR int64_t localrank_centre(const float *documents, int64_t n_docs, int64_t n_features, const blas *by,
                                         const precision *limits, float *scratch, float *centred, double *found)
{
    float *average = scratch, *mean = average + n_docs, *rest = mean + n_features;
    const int docs = (int)n_docs, features = (int)n_features, cells = (int)(n_docs * n_features);
    for (int64_t i = 0; i < n_docs; i++)
        average[i] = (float)(1.0 / (double)n_docs);
    weighted_rows(by, documents, docs, features, average, mean);
    subtract(documents, n_docs, n_features, mean, centred);
    weighted_rows(by, centred, docs, features, average, rest);
    double size = sum_of_squares(by, centred, cells);
    if ((double)n_docs * sum_of_squares(by, rest, features) > limits->off_centre * size) {
        subtract(centred, n_docs, n_features, rest, centred);
        size = sum_of_squares(by, centred, cells);
    }
    const double epsilon = FLT_EPSILON;
    found[0] = size;
    found[1] = (double)n_docs * (epsilon * epsilon) * sum_of_squares(by, mean, features) / limits->clear_gap;
    return size > limits->least && size > found[1] && size < limits->most ? DONE : IMPRECISE;
}

/* Find `wanted` leading variances, with the whole variance behind them, and unit directions [wanted, n_features].
 *
 * `centred` and `found` are of localrank_centre; `scatter` is the Gram matrix of `centred` if that has fewer documents than
 * features. 1 <= wanted < n_docs, wanted <= n_features. `scratch` has room for localrank_directions_room floats.
 *
 * Returns DONE; IMPRECISE if float32 is not precise enough; UNSOLVED if the eigensolver failed. */
EVERY_PROCESSOR int64_t localrank_directions(const float *centred, int64_t n_docs, int64_t n_features,
                                             const float *scatter, const double *found, int64_t wanted, const blas *by,
                                             const precision *limits, float *scratch, double *variances,
                                             float *directions)
{
    const int gram = n_docs < n_features, docs = (int)n_docs, features = (int)n_features;
    const int64_t smaller = gram ? n_docs : n_features, count = wanted < smaller ? wanted + 1 : smaller;
    float *rows = scratch;
    double values[LANES + 1];
    if (wanted > LANES || localrank_eigen(scatter, smaller, count, rows + count * smaller, values, rows))
        return UNSOLVED;
    for (int64_t k = 0; k <= wanted; k++)
        values[k] = k < count && values[k] > 0 ? values[k] : 0;
    for (int64_t k = 0; k < wanted; k++)
        if (values[k] - values[k + 1] < limits->clear_gap * values[0])
            return IMPRECISE;
    if (values[wanted - 1] < found[1])
        return IMPRECISE;
    if (!gram)
        memcpy(directions, rows, (size_t)(wanted * n_features) * sizeof *directions);
    else if (wanted == 1)
        weighted_rows(by, centred, docs, features, rows, directions);
    else {
        const int few = (int)wanted;
        const float one = 1, none = 0;
        by->gemm("N", "N", &features, &few, &docs, &one, centred, &features, rows, &docs, &none, directions, &features);
    }
    for (int64_t k = 0; k < wanted; k++) {
        float *row = directions + k * n_features;
        if (gram) {
            const float root = sqrtf(sum_of_squares(by, row, features)), length = root > FLT_MIN ? root : FLT_MIN;
            for (int64_t j = 0; j < n_features; j++)
                row[j] /= length;
        }
        variances[k] = values[k] / (double)(n_docs - 1);
    }
    variances[wanted] = found[0] / (double)(n_docs - 1);
    return DONE;
}

/* How many floats of scratch that takes. */
int64_t localrank_directions_room(int64_t n_docs, int64_t n_features, int64_t wanted)
{
    const int64_t smaller = n_docs < n_features ? n_docs : n_features, count = wanted < smaller ? wanted + 1 : smaller;
    return count * smaller + localrank_eigen_room(smaller, count);
}

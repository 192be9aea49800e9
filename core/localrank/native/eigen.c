/* The largest eigenvalues of a small symmetric matrix, and their vectors.
 *
 * Householder's reflections make the matrix tridiagonal [golub2013, algorithm 8.3.1]. The update by one reflection and
 * the product with the next are one pass over the matrix. Both triangles of the matrix are kept, so that every pass is
 * along rows. Counting sign changes [golub2013, section 8.4.1] at many points at once brackets the eigenvalues asked
 * for; twisted factorisations [dhillon2004] refine them and give the vectors, several at a time.
 *
 * If two eigenvalues are closer than about 1e-5 of the trace, their vectors may be wrong.
 */
#include <math.h>
#include <string.h>

#include "lanes.h"
#include "native.h"

enum { WIDE = 8, POINTS = 2 * LANES };
#define EACH for (int k = 0; k < WIDE; k++)

/* Subtract one reflection from a row and add it to the product with the next. */
INLINE void pass_one(float *restrict a, const float *restrict v, const float *restrict w, float *restrict product,
                     float vi, float wi, float next, int64_t begin, int64_t end)
{
    for (int64_t j = begin; j < end; j++) {
        a[j] -= vi * w[j] + wi * v[j];
        product[j] += next * a[j];
    }
}

INLINE void pass_four(float *restrict a, float *restrict b, float *restrict c, float *restrict d,
                      const float *restrict v, const float *restrict w, float *restrict product, const float *vs,
                      const float *ws, const float *next, int64_t begin, int64_t end)
{
    const float v0 = vs[0], v1 = vs[1], v2 = vs[2], v3 = vs[3], w0 = ws[0], w1 = ws[1], w2 = ws[2], w3 = ws[3];
    const float n0 = next[0], n1 = next[1], n2 = next[2], n3 = next[3];
    for (int64_t j = begin; j < end; j++) {
        a[j] -= v0 * w[j] + w0 * v[j];
        b[j] -= v1 * w[j] + w1 * v[j];
        c[j] -= v2 * w[j] + w2 * v[j];
        d[j] -= v3 * w[j] + w3 * v[j];
        product[j] += (n0 * a[j] + n1 * b[j]) + (n2 * c[j] + n3 * d[j]);
    }
}

/* Make the matrix tridiagonal: d, e and, in row r from column r + 1 on, the reflections I - tau v v'. Rows are of whole
 * lanes, padded with zeros. */
INLINE void reduce(float *matrix, int64_t n, int64_t stride, float *restrict v, float *restrict w, float *restrict next,
                   float *restrict product, float *d, float *e, float *tau)
{
    memset(v, 0, (size_t)stride * sizeof *v);
    memset(w, 0, (size_t)stride * sizeof *w);
    memset(next, 0, (size_t)stride * sizeof *next);
    for (int64_t r = 0; r < n; r++) {
        float *restrict row = matrix + r * stride;
        const int64_t begin = r / LANES * LANES;
        const float vr = v[r], wr = w[r];
        for (int64_t j = begin; j < stride; j++)
            row[j] -= vr * w[j] + wr * v[j];
        d[r] = row[r];
        if (r == n - 1)
            break;
        /* The reflection that makes all numbers right of the diagonal zero, except the first. */
        for (int64_t j = begin; j <= r + 1; j++)
            next[j] = 0;
        for (int64_t j = r + 2; j < stride; j++)
            next[j] = row[j];
        const float first = row[r + 1], rest = inner(next + begin, next + begin, stride - begin);
        float beta = first, factor = 0, scale = 0;
        if (rest > 1e-30f) { /* what is less is nothing beside a trace of one */
            beta = -copysignf(sqrtf(first * first + rest), first);
            factor = (beta - first) / beta;
            scale = 1 / (first - beta);
        }
        for (int64_t j = begin; j < stride; j++) {
            next[j] *= scale;
            product[j] = 0;
        }
        next[r + 1] = factor != 0;
        e[r] = beta;
        tau[r] = factor;
        int64_t i = r + 1;
        for (; i + 3 < n; i += 4) {
            float *a = matrix + i * stride;
            pass_four(a, a + stride, a + 2 * stride, a + 3 * stride, v, w, product, v + i, w + i, next + i, begin, stride);
        }
        for (; i < n; i++)
            pass_one(matrix + i * stride, v, w, product, v[i], w[i], next[i], begin, stride);
        for (int64_t j = begin; j <= r; j++)
            product[j] = 0;
        const float half = factor * factor * inner(product + begin, next + begin, stride - begin) / 2;
        for (int64_t j = begin; j < stride; j++) {
            w[j] = factor * product[j] - half * next[j];
            v[j] = next[j];
            row[j] = next[j];
        }
    }
}

/* How many eigenvalues of the tridiagonal matrix are below each point. */
INLINE void count_below(const float *d, const float *squares, int64_t n, const float *points, int32_t *below)
{
    float pivot[POINTS];
    for (int k = 0; k < POINTS; k++) {
        pivot[k] = d[0] - points[k];
        below[k] = pivot[k] < 0;
    }
    for (int64_t i = 1; i < n; i++) {
        const float diagonal = d[i], square = squares[i - 1];
        for (int k = 0; k < POINTS; k++) {
            pivot[k] = (diagonal - points[k]) - square / pivot[k];
            below[k] += pivot[k] < 0;
        }
    }
}

/* Bracket the largest eigenvalues, which are between 0 and 1. */
INLINE void bracket(const float *d, const float *e, int64_t n, int64_t count, float *squares, double *values)
{
    float low[LANES], high[LANES], points[POINTS];
    int32_t below[POINTS];
    const int each = POINTS / (int)count;
    for (int64_t i = 0; i + 1 < n; i++)
        squares[i] = e[i] * e[i] + 1e-30f; /* so that zero is never divided by zero */
    for (int64_t k = 0; k < count; k++) {
        low[k] = -1e-5f;
        high[k] = 1.001f;
    }
    memset(points, 0, sizeof points);
    for (double width = 1; width > 3e-8; width /= each + 1) {
        for (int64_t k = 0; k < count; k++)
            for (int i = 0; i < each; i++)
                points[k * each + i] = low[k] + (high[k] - low[k]) * (float)(i + 1) / (float)(each + 1);
        count_below(d, squares, n, points, below);
        for (int64_t k = 0; k < count; k++)
            for (int i = 0; i < each; i++) {
                /* The k-th largest is at or above the point where more than k are not below it. */
                const float point = points[k * each + i];
                if (n - below[k * each + i] > k)
                    low[k] = point > low[k] ? point : low[k];
                else
                    high[k] = point < high[k] ? point : high[k];
            }
    }
    for (int64_t k = 0; k < count; k++)
        values[k] = ((double)low[k] + (double)high[k]) / 2;
}

/* Refine WIDE eigenvalues at once and find their vectors, [n][WIDE]. */
INLINE void twisted(const float *d, const float *e, int64_t n, double *values, double *down, double *up, double *vectors)
{
    const double tiny = 1e-20;
    double lengths[WIDE], pivot[WIDE], best[WIDE], twist[WIDE], entry[WIDE];
    int64_t where[WIDE];
    for (int round = 0; round < 2; round++) {
        /* T - value = L D L' from the top, and U D U' from the bottom; what is kept are L and U. */
        EACH pivot[k] = (double)d[0] - values[k];
        for (int64_t i = 0; i + 1 < n; i++) {
            const double below = e[i], diagonal = d[i + 1];
            double *l = down + i * WIDE, *kept = vectors + i * WIDE;
            EACH {
                const double safe = fabs(pivot[k]) < tiny ? tiny : pivot[k];
                kept[k] = safe;
                l[k] = below / safe;
                pivot[k] = (diagonal - values[k]) - below * l[k];
            }
        }
        EACH {
            best[k] = fabs(pivot[k]);
            twist[k] = pivot[k];
            where[k] = n - 1;
            pivot[k] = (double)d[n - 1] - values[k];
        }
        for (int64_t i = n - 2; i >= 0; i--) {
            const double below = e[i], diagonal = d[i];
            double *u = up + i * WIDE, *kept = vectors + i * WIDE;
            EACH {
                const double safe = fabs(pivot[k]) < tiny ? tiny : pivot[k];
                u[k] = below / safe;
                const double less = below * u[k], meeting = kept[k] - less;
                pivot[k] = (diagonal - values[k]) - less;
                const int better = fabs(meeting) < best[k];
                best[k] = better ? fabs(meeting) : best[k];
                twist[k] = better ? meeting : twist[k];
                where[k] = better ? i : where[k];
            }
        }
        /* One where both meet; from there along L upwards and along U downwards. */
        EACH {
            entry[k] = where[k] == n - 1;
            vectors[(n - 1) * WIDE + k] = entry[k];
        }
        for (int64_t i = n - 2; i >= 0; i--) {
            const double *l = down + i * WIDE;
            double *kept = vectors + i * WIDE;
            EACH {
                entry[k] = where[k] == i ? 1 : -l[k] * entry[k];
                kept[k] = entry[k];
            }
        }
        EACH {
            entry[k] = where[k] == 0;
            lengths[k] = vectors[k] * vectors[k];
        }
        for (int64_t i = 1; i < n; i++) {
            const double *u = up + (i - 1) * WIDE;
            double *kept = vectors + i * WIDE;
            EACH {
                entry[k] = where[k] == i ? 1 : -u[k] * entry[k];
                kept[k] = where[k] < i ? entry[k] : kept[k];
                lengths[k] += kept[k] * kept[k];
            }
        }
        /* Rayleigh's quotient. */
        EACH values[k] += twist[k] / lengths[k];
    }
    EACH lengths[k] = 1 / sqrt(lengths[k]);
    for (int64_t i = 0; i < n; i++)
        EACH vectors[i * WIDE + k] *= lengths[k];
}

INLINE float *aligned(float **free, int64_t count)
{
    float *here = *free;
    *free += (count + LANES - 1) / LANES * LANES;
    return here;
}

/* Find the `count` largest eigenvalues of the positive semi-definite matrix [n, n] in decreasing order, and unit vectors
 * [count, n]. `scratch` has room for localrank_eigen_room(n, count) floats. Returns 0, or 1 if it failed. */
EVERY_PROCESSOR int64_t localrank_eigen(const float *symmetric, int64_t n, int64_t count, float *scratch, double *values,
                                        float *vectors)
{
    if (n < 1 || count < 1 || count > n || count > LANES)
        return 1;
    const int64_t stride = (n + LANES - 1) / LANES * LANES;
    float *free = (float *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    float *matrix = aligned(&free, n * stride);
    float *v = aligned(&free, stride), *w = aligned(&free, stride), *next = aligned(&free, stride);
    float *product = aligned(&free, stride), *squares = aligned(&free, stride);
    float *d = aligned(&free, stride), *e = aligned(&free, stride), *tau = aligned(&free, stride);
    double *down = (double *)aligned(&free, 2 * WIDE * n), *up = (double *)aligned(&free, 2 * WIDE * n);
    double *found = (double *)aligned(&free, 2 * WIDE * n);
    float *rows = aligned(&free, count * stride);

    float trace = 0;
    for (int64_t i = 0; i < n; i++)
        trace += symmetric[i * n + i];
    if (!(trace > 1e-30f && trace < 1e30f))
        return 1;
    const float scale = 1 / trace;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++)
            matrix[i * stride + j] = scale * symmetric[i * n + j];
        for (int64_t j = n; j < stride; j++)
            matrix[i * stride + j] = 0;
    }
    reduce(matrix, n, stride, v, w, next, product, d, e, tau);
    bracket(d, e, n, count, squares, values);
    memset(rows, 0, (size_t)(count * stride) * sizeof *rows);
    for (int64_t first = 0; first < count; first += WIDE) {
        const int64_t here = count - first < WIDE ? count - first : WIDE;
        double refined[WIDE];
        EACH refined[k] = values[first + (k < here ? k : here - 1)];
        twisted(d, e, n, refined, down, up, found);
        for (int64_t k = 0; k < here; k++) {
            if (!(fabs(refined[k] - values[first + k]) < 1e-5))
                return 1;
            values[first + k] = refined[k];
            for (int64_t i = 0; i < n; i++)
                rows[(first + k) * stride + i] = (float)found[i * WIDE + k];
        }
    }
    for (int64_t r = n - 3; r >= 0; r--) {
        if (tau[r] == 0)
            continue;
        const int64_t begin = r / LANES * LANES;
        const float *restrict reflection = matrix + r * stride;
        for (int64_t k = 0; k < count; k++) {
            float *restrict row = rows + k * stride;
            const float by = tau[r] * inner(reflection + begin, row + begin, stride - begin);
            for (int64_t j = begin; j < stride; j++)
                row[j] -= by * reflection[j];
        }
    }
    for (int64_t k = 0; k < count; k++) {
        values[k] *= trace;
        memcpy(vectors + k * n, rows + k * stride, (size_t)n * sizeof *vectors);
    }
    return 0;
}

/* How many floats of scratch that takes. */
int64_t localrank_eigen_room(int64_t n, int64_t count)
{
    const int64_t stride = (n + LANES - 1) / LANES * LANES;
    return LANES + (n + 8 + count) * stride + 6 * WIDE * n + 4 * LANES;
}

/* How the sources are compiled, and sums that are the same to the bit on every processor.
 *
 * Loops are plain. The compiler makes vectors of them, as wide as those of the processor. If the elements are
 * independent, this changes no bit. If they are added up, they are added in a fixed number of lanes. */
#ifndef LOCALRANK_LANES_H
#define LOCALRANK_LANES_H

#include <stdint.h>

/* Compiled once for each generation of processors, chosen when the library is opened. LOCALRANK_ONE_TARGET is for
 * compilers and C libraries that cannot do that. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(LOCALRANK_ONE_TARGET)
#define EVERY_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EVERY_PROCESSOR
#endif

/* Inlined, so that it is compiled for each generation, too. */
#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };
typedef float lanes __attribute__((vector_size(64)));
typedef float lanes_anywhere __attribute__((vector_size(64), aligned(4), may_alias));

INLINE float sum_of_lanes(float *parts)
{
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            parts[i] += parts[i + width];
    return parts[0];
}

/* The inner product of two rows of whole lanes. */
INLINE float inner(const float *restrict a, const float *restrict b, int64_t count)
{
    float parts[LANES] = {0};
    for (int64_t j = 0; j < count; j += LANES)
        for (int i = 0; i < LANES; i++)
            parts[i] += a[j + i] * b[j + i];
    return sum_of_lanes(parts);
}

#endif

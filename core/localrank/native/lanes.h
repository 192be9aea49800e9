/* Vectors of a fixed number of lanes, whatever the processor has: what is narrower takes several instructions for one,
 * and the sums are the same to the bit. */
#ifndef LOCALRANK_LANES_H
#define LOCALRANK_LANES_H

/* Compiled once for each generation of processors, chosen when the library is opened. LOCALRANK_ONE_TARGET is for
 * compilers and C libraries that cannot do that. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(LOCALRANK_ONE_TARGET)
#define EVERY_PROCESSOR __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define EVERY_PROCESSOR
#endif

enum { LANES = 16 };
typedef float lanes __attribute__((vector_size(64)));
/* The same, wherever it lies in memory. */
typedef float lanes_anywhere __attribute__((vector_size(64), aligned(4), may_alias));

#endif

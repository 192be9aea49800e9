/* The scores of localrank.scorers.bits.LeafBits: which leaves of a small tree are left, as bits, for 32 documents at once.
 *
 * Every split of a tree is asked for every document [lucchese2015]: if a document goes right, it cannot end in a leaf on the
 * left, so these bits become zero. The first leaf that is left, from left to right, is the document's. No step depends on
 * the one before, so the processor takes as many documents at once as its vectors hold. The number of steps is that of
 * the splits, so this pays for small trees only; localrank_most_leaves says how small.
 *
 * A block of documents is turned first: a column has one feature of 32 documents. What is missing becomes NaN in a column
 * of splits that send it left, and infinity in one of splits that send it right. So a split compares, and no more.
 *
 * The caller guarantees that features, columns, leaves and category sets exist.
 */
#include <math.h>
#include <string.h>

#include "lanes.h"
#include "native.h"

enum { BLOCK = 32 };

#define ALIGNED __attribute__((aligned(64)))

typedef struct {
    const column *columns;
    const split *splits;
    const int32_t *ends, *leaves; /* ends: of a tree's thresholds, and of its category sets behind them */
    const double *values;
    const int64_t *set_begins;
    const uint32_t *category_bits;
    int64_t n_columns, count;
} trees;

/* Columns of the same feature lie side by side, so that documents are read once. */
INLINE void fill(const trees *forest, const float *documents, int64_t count, int64_t n_features, float *columns)
{
    ALIGNED float seen[BLOCK];
    const float *document[BLOCK];
    for (int64_t i = 0; i < BLOCK; i++) /* missing documents are replaced by the last one */
        document[i] = documents + (i < count ? i : count - 1) * n_features;
    for (int64_t j = 0; j < forest->n_columns; j++) {
        const column *wanted = forest->columns + j;
        if (!j || wanted->feature != wanted[-1].feature)
            for (int i = 0; i < BLOCK; i++)
                seen[i] = document[i][wanted->feature];
        float *filled = columns + j * BLOCK;
        if (wanted->categorical) {
            int32_t category[BLOCK];
            for (int i = 0; i < BLOCK; i++)
                category[i] = seen[i] > -1 && seen[i] < 2147483648.0F ? (int32_t)seen[i] : -1;
            memcpy(filled, category, sizeof category);
        } else
            for (int i = 0; i < BLOCK; i++)
                filled[i] = fabsf(seen[i]) > wanted->reach ? seen[i] : wanted->missing;
    }
}

/* All bits are set for documents whose category is not in the set. */
INLINE void not_among(const trees *forest, const split *asked, const float *columns, uint32_t *outside)
{
    int32_t set;
    memcpy(&set, &asked->threshold, sizeof set);
    const int64_t begin = forest->set_begins[set], words = forest->set_begins[set + 1] - begin;
    uint32_t category[BLOCK];
    memcpy(category, columns + (int64_t)asked->column * BLOCK, sizeof category);
    for (int i = 0; i < BLOCK; i++) {
        const int64_t word = category[i] / 32;
        const uint32_t members = word < words ? forest->category_bits[begin + word] : 0;
        outside[i] = (members >> (category[i] % 32) & 1) - 1;
    }
}

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(LOCALRANK_ONE_TARGET)
#define FOR(family) __attribute__((target("arch=" family)))
static int width(void)
{
    return __builtin_cpu_supports("x86-64-v4") ? 64 : __builtin_cpu_supports("x86-64-v3") ? 32 : 16;
}
#else
#define FOR(family)
static int width(void)
{
#if defined(__AVX512F__)
    return 64;
#elif defined(__AVX2__)
    return 32;
#else
    return 16;
#endif
}
#endif

#define WIDTH 16
#define TARGET
#include "leaves.h"
#define WIDTH 32
#define TARGET FOR("x86-64-v3")
#include "leaves.h"
#define WIDTH 64
#define TARGET FOR("x86-64-v4")
#include "leaves.h"

int64_t localrank_most_leaves(void)
{
    return width() > 16 ? 64 : 32;
}

void localrank_leaves(const float *documents, int64_t n_documents, int64_t n_features, const column *columns,
                      int64_t n_columns, const split *splits, const int32_t *ends, const int32_t *leaves,
                      int64_t n_trees, int64_t words, const double *values, const int64_t *set_begins,
                      const uint32_t *category_bits, float *space, double *scores)
{
    const trees forest = {columns, splits, ends, leaves, values, set_begins, category_bits, n_columns, n_trees};
    const int wide = width();
    (wide == 64 ? score_64 : wide == 32 ? score_32 : score_16)(&forest, documents, n_documents, n_features, (int)words,
                                                               space, scores);
}

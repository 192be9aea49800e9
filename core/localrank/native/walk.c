/* The walk of localrank.scorers.walk.Layout, eight documents side by side; and what each split of it adds to a score.
 *
 * One document's steps depend on each other; those of eight do not, so the processor overlaps them. There is no branch
 * to mispredict inside a tree: every document takes as many steps as the tree is deep, and a leaf leads to itself.
 * Trees are taken in groups that stay in the first-level cache while all documents pass.
 *
 * The caller guarantees that features, children and category sets exist (TreesScorer checks them when it is made).
 */
#include <math.h>
#include <string.h>

#include "native.h"

enum { ABREAST = 8, GROUP = 16 };

static const uint32_t CATEGORICAL = UINT32_C(1) << 30, FEATURE = (UINT32_C(1) << 30) - 1;

static int not_among(const node *at, float seen, const int64_t *set_begins, const uint32_t *category_bits)
{
    int32_t set;
    memcpy(&set, &at->threshold, sizeof set);
    const int64_t begin = set_begins[set], bits = 32 * (set_begins[set + 1] - begin);
    if (!(seen > -1 && seen < (double)bits)) /* also where it is NaN */
        return 1;
    const int64_t category = (int64_t)seen;
    return !(category_bits[begin + category / 32] >> (category % 32) & 1);
}

/* Which child a document goes to. */
static inline int32_t next(const node *now, const float *document, const int64_t *set_begins,
                           const uint32_t *category_bits, int has_categories)
{
    const float seen = document[now->feature & FEATURE];
    const int by_default = !(fabsf(seen) > now->reach); /* also where it is NaN */
    int right = by_default ? (int)(now->feature >> 31) : seen > now->threshold;
    if (has_categories && now->feature & CATEGORICAL)
        right = not_among(now, seen, set_begins, category_bits);
    return now->left + right;
}

static inline void walk(const float *documents, int64_t n_documents, int64_t n_features, const node *nodes,
                        const int32_t *roots, const int32_t *depths, int64_t n_trees, const double *values,
                        const int64_t *set_begins, const uint32_t *category_bits, int has_categories, double *scores)
{
    memset(scores, 0, (size_t)n_documents * sizeof *scores);
    for (int64_t first = 0; first < n_trees; first += GROUP) {
        const int64_t last = first + GROUP < n_trees ? first + GROUP : n_trees;
        for (int64_t begin = 0; begin < n_documents; begin += ABREAST) {
            const int64_t here = n_documents - begin < ABREAST ? n_documents - begin : ABREAST;
            const float *document[ABREAST];
            for (int64_t i = 0; i < ABREAST; i++) /* missing documents are replaced by the last one */
                document[i] = documents + (begin + (i < here ? i : here - 1)) * n_features;
            for (int64_t tree = first; tree < last; tree++) {
                int32_t at[ABREAST];
                for (int i = 0; i < ABREAST; i++)
                    at[i] = roots[tree];
                for (int32_t step = depths[tree]; step > 0; step--) {
                    for (int i = 0; i < ABREAST; i++)
                        at[i] = next(nodes + at[i], document[i], set_begins, category_bits, has_categories);
                }
                for (int64_t i = 0; i < here; i++)
                    scores[begin + i] += values[at[i]];
            }
        }
    }
}

void localrank_walk(const float *documents, int64_t n_documents, int64_t n_features, const node *nodes,
                    const int32_t *roots, const int32_t *depths, int64_t n_trees, const double *values,
                    const int64_t *set_begins, const uint32_t *category_bits, int64_t n_sets, double *scores)
{
    if (n_sets)
        walk(documents, n_documents, n_features, nodes, roots, depths, n_trees, values, set_begins, category_bits, 1,
             scores);
    else
        walk(documents, n_documents, n_features, nodes, roots, depths, n_trees, values, 0, 0, 0, scores);
}

void localrank_gains(const float *documents, int64_t n_documents, int64_t n_features, const node *nodes,
                     int64_t n_nodes, const int32_t *roots, int64_t n_trees, const double *values,
                     const int64_t *set_begins, const uint32_t *category_bits, int64_t n_sets, int64_t *counts,
                     double *gains)
{
    memset(counts, 0, (size_t)n_nodes * sizeof *counts);
    for (int64_t tree = 0; tree < n_trees; tree++) {
        const int64_t root = roots[tree], end = tree + 1 < n_trees ? roots[tree + 1] : n_nodes;
        for (int64_t i = 0; i < n_documents; i++) {
            int32_t at = roots[tree];
            while (nodes[at].left != at)
                at = next(nodes + at, documents + i * n_features, set_begins, category_bits, n_sets > 0);
            counts[at]++;
        }
        /* Children stand behind their parents. A place holds its mean until its parent's is known. */
        for (int64_t at = end - 1; at >= root; at--) {
            const int64_t left = nodes[at].left, right = left + 1;
            if (left == at) {
                gains[at] = values[at];
                continue;
            }
            const double on_left = gains[left], on_right = gains[right];
            counts[at] = counts[left] + counts[right];
            double mean = on_left;
            if (!counts[left])
                mean = on_right;
            else if (counts[right])
                mean += (on_right - on_left) * ((double)counts[right] / (double)counts[at]);
            gains[left] = on_left - mean;
            gains[right] = on_right - mean;
            gains[at] = mean;
        }
        gains[root] = 0;
    }
}

void localrank_contributions(const float *documents, int64_t n_documents, int64_t n_features, const node *nodes,
                             const int32_t *roots, int64_t n_trees, const int64_t *set_begins,
                             const uint32_t *category_bits, int64_t n_sets, const double *gains,
                             double *contributions)
{
    memset(contributions, 0, (size_t)(n_documents * n_features) * sizeof *contributions);
    for (int64_t first = 0; first < n_trees; first += GROUP) {
        const int64_t last = first + GROUP < n_trees ? first + GROUP : n_trees;
        for (int64_t i = 0; i < n_documents; i++) {
            double *own = contributions + i * n_features;
            for (int64_t tree = first; tree < last; tree++) {
                int32_t at = roots[tree];
                while (nodes[at].left != at) {
                    const node *now = nodes + at;
                    at = next(now, documents + i * n_features, set_begins, category_bits, n_sets > 0);
                    own[now->feature & FEATURE] += gains[at];
                }
            }
        }
    }
}

/* The walk of localrank.scorers.walk.ForestLayout, ten documents side by side; and what each split of it adds to a score.
 *
 * One document's steps depend on each other; those of ten do not, so the processor overlaps them. There is no branch to
 * mispredict inside a tree: a leaf leads to the root of the next tree, and every step adds the value of the node where
 * it begins, which is zero except at leaves. So the steps of a document depend on the length of its paths, not on the
 * depth of the trees. Trees are in groups that stay in the first-level cache while all documents pass; the last leaves
 * of a group lead to its end, which leads to itself.
 *
 * The caller guarantees that features, children and category sets exist (TreesScorer checks them when it is made).
 */
#include <math.h>
#include <string.h>

#include "native.h"

enum { ABREAST = 10, GROUP = 16, STEPS = 4 };

static const uint32_t CATEGORICAL = UINT32_C(1) << 30, LEAF = UINT32_C(1) << 29, FEATURE = (UINT32_C(1) << 29) - 1;

#define INLINE static inline __attribute__((always_inline))

static int not_among(const node *at, float seen, const int64_t *set_begins, const uint32_t *category_bits)
{
    int32_t set;
    memcpy(&set, &at->threshold, sizeof set);
    const int64_t begin = set_begins[set], bits = 32 * (set_begins[set + 1] - begin);
    if (!(seen > -1 && seen < (double)bits && bits)) /* also where it is NaN; a set may be empty */
        return 1;
    const int64_t category = (int64_t)seen;
    return !(category_bits[begin + category / 32] >> (category % 32) & 1);
}

/* The data besides thresholds that decide a step. */
typedef enum { PLAIN, MISSING, CATEGORIES } kind;

/* Which child a document goes to. */
INLINE int32_t next(const node *now, const float *document, const int64_t *set_begins, const uint32_t *category_bits,
                    kind decides)
{
    const float seen = document[now->feature & FEATURE];
    int right = seen > now->threshold;
    if (decides != PLAIN) {
        const int by_default = !(fabsf(seen) > now->reach); /* also where it is NaN */
        right = by_default ? (int)(now->feature >> 31) : right;
    }
    if (decides == CATEGORIES && now->feature & CATEGORICAL)
        right = not_among(now, seen, set_begins, category_bits);
    return now->left + right;
}

INLINE void walk(const float *documents, int64_t n_documents, int64_t n_features, const node *nodes,
                 const int32_t *ends, int64_t n_groups, const double *values, const int64_t *set_begins,
                 const uint32_t *category_bits, kind decides, double *scores)
{
    memset(scores, 0, (size_t)n_documents * sizeof *scores);
    for (int64_t group = 0; group < n_groups; group++) {
        const int32_t root = group ? ends[group - 1] + 1 : 0, end = ends[group];
        for (int64_t begin = 0; begin < n_documents; begin += ABREAST) {
            const int64_t here = n_documents - begin < ABREAST ? n_documents - begin : ABREAST;
            const float *document[ABREAST];
            int32_t at[ABREAST];
            double sum[ABREAST];
            for (int64_t i = 0; i < ABREAST; i++) { /* missing documents are replaced by the last one */
                const int64_t place = begin + (i < here ? i : here - 1);
                document[i] = documents + place * n_features;
                at[i] = root;
                sum[i] = scores[place];
            }
            for (int32_t walking = 1; walking;) {
                for (int step = 0; step < STEPS; step++)
                    for (int i = 0; i < ABREAST; i++) {
                        sum[i] += values[at[i]];
                        at[i] = next(nodes + at[i], document[i], set_begins, category_bits, decides);
                    }
                walking = 0;
                for (int i = 0; i < ABREAST; i++)
                    walking |= at[i] ^ end;
            }
            for (int64_t i = 0; i < here; i++)
                scores[begin + i] = sum[i];
        }
    }
}

static int any_missing(const float *documents, int64_t count)
{
    int found = 0;
    for (int64_t i = 0; i < count; i++)
        found |= documents[i] != documents[i];
    return found;
}

void localrank_walk(const float *documents, int64_t n_documents, int64_t n_features, const node *nodes,
                    const int32_t *ends, int64_t n_groups, const double *values, const int64_t *set_begins,
                    const uint32_t *category_bits, int64_t n_sets, int64_t zero_is_missing, double *scores)
{
    static const float NOTHING = 0;
    if (!n_features) /* a leaf looks at the first feature, whatever it is */
        documents = &NOTHING;
    if (n_sets)
        walk(documents, n_documents, n_features, nodes, ends, n_groups, values, set_begins, category_bits, CATEGORIES,
             scores);
    else if (zero_is_missing || any_missing(documents, n_documents * n_features))
        walk(documents, n_documents, n_features, nodes, ends, n_groups, values, 0, 0, MISSING, scores);
    else
        walk(documents, n_documents, n_features, nodes, ends, n_groups, values, 0, 0, PLAIN, scores);
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
            while (!(nodes[at].feature & LEAF))
                at = next(nodes + at, documents + i * n_features, set_begins, category_bits, n_sets ? CATEGORIES : MISSING);
            counts[at]++;
        }
        /* Children stand behind their parents. A place holds its mean until its parent's is known. */
        for (int64_t at = end - 1; at >= root; at--) {
            const int64_t left = nodes[at].left, right = left + 1;
            if (nodes[at].feature & LEAF) {
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
                while (!(nodes[at].feature & LEAF)) {
                    const node *now = nodes + at;
                    at = next(now, documents + i * n_features, set_begins, category_bits, n_sets ? CATEGORIES : MISSING);
                    own[now->feature & FEATURE] += gains[at];
                }
            }
        }
    }
}

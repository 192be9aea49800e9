/* Every function that Python calls, and the structures that it shares with them.
 *
 * localrank/native/library.py repeats these types for ctypes; tests/core/native/test_library.py compares the two. All
 * arrays are C-contiguous and as long as the comments beside the functions say. No function keeps an address. */
#ifndef LOCALRANK_NATIVE_H
#define LOCALRANK_NATIVE_H

#include <stdint.h>

/* A node of localrank.scorers.walk.ForestLayout. */
typedef struct {
    float threshold;
    float reach;
    int32_t left;
    uint32_t feature;
} node;

/* What a feature is to some splits of localrank.scorers.bits.LeafBits: its number, or `missing` for one of magnitude up to
 * `reach` and for NaN; or its category. */
typedef struct {
    uint32_t feature, categorical;
    float reach, missing;
} column;

/* A split of localrank.scorers.bits.LeafBits, and the leaves on its left. */
typedef struct {
    float threshold;
    uint32_t column, on_left[2];
} split;

/* The nearest training query, and the similarity of the nearest one of any other cluster. */
typedef struct {
    int64_t place, cluster;
    double similarity, other;
} neighbour;

/* A training query that shares a bucket with the query. */
typedef struct {
    int32_t query, votes, component, plus, minus;
} candidate;

/* A bucket's entries. */
typedef struct {
    int64_t first, last;
} range;

/* An array of numbers in a JSON text. */
typedef struct {
    int64_t begin, end;  /* in the text */
    int64_t rows, width; /* no rows: the array holds the numbers itself */
} span;

/* Elements of a JSON array or object that stand side by side. */
typedef struct {
    int64_t begin, end; /* in the text, without space around */
    int64_t elements, values, names; /* values: an upper bound of how many objects a parser makes of them */
    int64_t colon; /* after the name of the first element, if it has one */
} run;

/* Functions of BLAS, as Fortran calls them. Matrices are there what C has as their transposes. */
typedef struct {
    void (*gemm)(const char *transposed_a, const char *transposed_b, const int *m, const int *n, const int *inner,
                 const float *alpha, const float *a, const int *stride_a, const float *b, const int *stride_b,
                 const float *beta, float *c, const int *stride_c);
    void (*gemv)(const char *transposed, const int *m, const int *n, const float *alpha, const float *a,
                 const int *stride_a, const float *x, const int *step_x, const float *beta, float *y, const int *step_y);
    float (*dot)(const int *n, const float *x, const int *step_x, const float *y, const int *step_y);
} blas;

/* Where float32 is precise enough, as localrank/features/principal.py sets it. */
typedef struct {
    double least, most; /* between these sums of squares */
    double off_centre;  /* a mean below this share of the sum of squares is negligible */
    double clear_gap;   /* consecutive eigenvalues differ by this share of the largest */
} precision;

/* version.c */
const char *localrank_version(void);

/* documents.c */
int64_t localrank_scale(const float *documents, int64_t n_docs, int64_t n_features, int64_t standard, double rounding,
                        float *space, float *scaled);
int64_t localrank_behind_best(const float *documents, int64_t n_docs, int64_t n_features, const double *scale,
                              double rounding, float *space, float *found);
int64_t localrank_out_of_range(const float *documents, int64_t n_docs, int64_t n_features, const float *least,
                               const float *most);

/* percentiles.c */
void localrank_percentiles(const float *documents, int64_t n_docs, int64_t n_features, double rounding, int64_t *space,
                           float *found);

/* eigen.c */
int64_t localrank_eigen(const float *symmetric, int64_t n, int64_t count, float *scratch, double *values,
                        float *vectors);
int64_t localrank_eigen_room(int64_t n, int64_t count);

/* sign.c */
int64_t localrank_centre(const float *documents, int64_t n_docs, int64_t n_features, const blas *by,
                         const precision *limits, float *scratch, float *centred, double *found);
int64_t localrank_directions(const float *centred, int64_t n_docs, int64_t n_features, const float *scatter,
                             const double *found, int64_t wanted, const blas *by, const precision *limits,
                             float *scratch, double *variances, float *directions);
int64_t localrank_directions_room(int64_t n_docs, int64_t n_features, int64_t wanted);

/* nearest.c */
void localrank_nearest(const float *directions, const int64_t *ranks, const int64_t *clusters, int64_t n_queries,
                       int64_t n_components, int64_t n_features, const float *query, int64_t rank,
                       const int64_t *which, int64_t count, float *scratch, neighbour *found);

/* tables.c */
int64_t localrank_votes(const float *projected, int64_t rank, int64_t tables, int64_t planes, const int32_t *offsets,
                        const int32_t *ids, int64_t n_queries, int64_t cap, int64_t probes, range *ranges,
                        int32_t *slots, candidate *found, int64_t room);
int64_t localrank_most_votes(const candidate *found, int64_t count, const uint16_t *ranks, int64_t n_queries,
                             int64_t rank, int64_t tables, int64_t wanted, uint64_t *keys, int64_t *chosen);

/* walk.c */
void localrank_walk(const float *documents, int64_t n_documents, int64_t n_features, const node *nodes,
                    const int32_t *ends, int64_t n_groups, const double *values, const int64_t *set_begins,
                    const uint32_t *category_bits, int64_t n_sets, int64_t zero_is_missing, double *scores);
void localrank_gains(const float *documents, int64_t n_documents, int64_t n_features, const node *nodes,
                     int64_t n_nodes, const int32_t *roots, int64_t n_trees, const double *values,
                     const int64_t *set_begins, const uint32_t *category_bits, int64_t n_sets, int64_t *counts,
                     double *gains);
void localrank_contributions(const float *documents, int64_t n_documents, int64_t n_features, const node *nodes,
                             const int32_t *roots, int64_t n_trees, const int64_t *set_begins,
                             const uint32_t *category_bits, int64_t n_sets, const double *gains,
                             double *contributions);

/* leaves.c */
int64_t localrank_most_leaves(void);
void localrank_leaves(const float *documents, int64_t n_documents, int64_t n_features, const column *columns,
                      int64_t n_columns, const split *splits, const int32_t *ends, const int32_t *leaves,
                      int64_t n_trees, int64_t words, const double *values, const int64_t *set_begins,
                      const uint32_t *category_bits, float *space, double *scores);

/* json.c */
int64_t localrank_lift_numbers(const uint8_t *text, int64_t length, const uint8_t *name, int64_t name_length,
                               const uint64_t (*powers)[2], float *values, int64_t n_values, span *spans,
                               int64_t n_spans, uint8_t *outline, int64_t n_outline, int64_t *places, int64_t n_places,
                               int64_t *totals);

/* scan.c */
int64_t localrank_scan_json(const uint8_t *text, int64_t length, int64_t most_levels, int64_t most_members,
                            int64_t most_numbers, int64_t *totals);
int64_t localrank_cut_json(const uint8_t *text, int64_t begin, int64_t end, int64_t run_values, int64_t run_bytes,
                           run *runs, int64_t n_runs, int64_t *totals);

/* items.c */
void localrank_hash_ids(const uint64_t *key, const uint8_t *texts, const int64_t *ends, int64_t count,
                        uint64_t *hashes);
int64_t localrank_find_ids(const uint64_t *key, const uint8_t *texts, int64_t length, int64_t separator, int64_t *ends,
                           int64_t count, uint64_t *hashes, const uint32_t *slots, int64_t n_slots, int64_t n_places,
                           const uint8_t *known, const uint32_t *known_ends, int64_t n_known, int64_t *found);
void localrank_fill_items(const int64_t *rows, int64_t count, const float *values, int64_t width, const int64_t *taken,
                          const int64_t *places, const int64_t *begins, int64_t n_taken, const float *codes,
                          float *documents, int64_t n_features);

#endif

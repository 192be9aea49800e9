/* The scores of one block of documents, with vectors of WIDTH bytes: leaves.c includes this once for each width.
 *
 * A tree's bits, 32 documents of them, stay in registers while its splits are asked. */
#define JOINED(name, width) name##_##width
#define EXPANDED(name, width) JOINED(name, width)
#define WIDE(name) EXPANDED(name, WIDTH)
#define VECTORS (BLOCK * 4 / WIDTH)

typedef float WIDE(numbers) __attribute__((vector_size(WIDTH), may_alias));
typedef int32_t WIDE(places) __attribute__((vector_size(WIDTH), may_alias));
typedef uint32_t WIDE(bits) __attribute__((vector_size(WIDTH), may_alias));

/* The lowest leaf that is left. A power of two as a float is its exponent. */
INLINE void WIDE(lowest)(const WIDE(bits) *left, int words, int32_t *leaf)
{
    for (int v = 0; v < VECTORS; v++) {
        WIDE(bits) word = left[v];
        const WIDE(places) behind = words == 2 ? (WIDE(places))(word == 0) : (WIDE(places)){0};
        if (words == 2)
            word |= left[VECTORS + v] & (WIDE(bits))behind;
        const WIDE(places) power = (WIDE(places))(word & -word);
        const WIDE(places) exponent = (WIDE(places))__builtin_convertvector(power, WIDE(numbers)) >> 23 & 255;
        ((WIDE(places) *)leaf)[v] = exponent - 127 + (behind & 32);
    }
}

INLINE void WIDE(block)(const trees *forest, const float *columns, int words, double *sums)
{
    const split *now = forest->splits;
    for (int64_t tree = 0; tree < forest->count; tree++) {
        WIDE(bits) left[2 * VECTORS];
        for (int v = 0; v < words * VECTORS; v++)
            left[v] = (WIDE(bits)){0} - 1;
        for (const split *end = forest->splits + forest->ends[2 * tree]; now < end; now++) {
            const WIDE(numbers) *seen = (const WIDE(numbers) *)(columns + (int64_t)now->column * BLOCK);
            for (int v = 0; v < VECTORS; v++) {
                const WIDE(bits) right = (WIDE(bits))(seen[v] > now->threshold);
                left[v] &= ~(right & now->on_left[0]);
                if (words == 2)
                    left[VECTORS + v] &= ~(right & now->on_left[1]);
            }
        }
        for (const split *end = forest->splits + forest->ends[2 * tree + 1]; now < end; now++) {
            ALIGNED uint32_t outside[BLOCK];
            not_among(forest, now, columns, outside);
            for (int v = 0; v < VECTORS; v++) {
                const WIDE(bits) right = ((const WIDE(bits) *)outside)[v];
                left[v] &= ~(right & now->on_left[0]);
                if (words == 2)
                    left[VECTORS + v] &= ~(right & now->on_left[1]);
            }
        }
        ALIGNED int32_t leaf[BLOCK];
        WIDE(lowest)(left, words, leaf);
        const double *values = forest->values + forest->leaves[tree];
        for (int i = 0; i < BLOCK; i++)
            sums[i] += values[leaf[i]];
    }
}

TARGET static void WIDE(score)(const trees *forest, const float *documents, int64_t n_documents, int64_t n_features,
                               int words, float *columns, double *scores)
{
    for (int64_t begin = 0; begin < n_documents; begin += BLOCK) {
        const int64_t here = n_documents - begin < BLOCK ? n_documents - begin : BLOCK;
        ALIGNED double sums[BLOCK] = {0};
        fill(forest, documents + begin * n_features, here, n_features, columns);
        if (words == 2)
            WIDE(block)(forest, columns, 2, sums);
        else
            WIDE(block)(forest, columns, 1, sums);
        memcpy(scores + begin, sums, (size_t)here * sizeof *sums);
    }
}

#undef JOINED
#undef EXPANDED
#undef WIDE
#undef VECTORS
#undef WIDTH
#undef TARGET

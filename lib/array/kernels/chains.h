/*
 * Sums of products whose bits are portable (kernels/portable.h), for each
 * level: those of convolutions. Vectors run over columns only.
 *
 * The left factor is read where it is: row i has term k at a[i] + at[k]. So the
 * pixels of an image are rows without a copy for each tap of a filter.
 */
#ifndef LS_ARRAY_KERNELS_CHAINS_H
#define LS_ARRAY_KERNELS_CHAINS_H

#include <stdbool.h>
#include <stddef.h>

/* One block of terms, and one panel of columns. */
typedef struct lsi_chains {
    float *const *c;         /* rows of the result */
    const float *const *a;   /* rows of the left factor */
    const size_t *at;        /* (depth) elements */
    const float *b;          /* (depth, panel), the whole panel readable */
    const float *bias;       /* (cols), added last; NULL: none */
    size_t first_c, first_a; /* elements to add to all of c, of a */
    size_t rows, cols, depth;
    bool add;  /* to what earlier blocks have left in c */
    bool relu; /* after the bias */
} lsi_chains;

typedef struct lsi_chain_ops {
    size_t panel; /* columns that are computed at once */
    void (*multiply)(const lsi_chains *chains);
} lsi_chain_ops;

extern const lsi_chain_ops lsi_chains_ref, lsi_chains_avx2, lsi_chains_avx512,
    lsi_chains_neon;

#endif

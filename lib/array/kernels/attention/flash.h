/*
 * FlashAttention-2 (Dao 2023) on a CPU: the parts that are compiled once for
 * each instruction level, and their arguments. Softmax runs over tiles of keys
 * with a running maximum and sum, so that scores never leave the cache; the
 * backward recomputes them from a row's shift m and 1 / sum. These stay apart:
 * L = log of the sum of exponentials, rounded to f32, would lose precision as
 * the scores grow.
 */
#ifndef LS_ARRAY_KERNELS_ATTENTION_FLASH_H
#define LS_ARRAY_KERNELS_ATTENTION_FLASH_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "array/kernels/arguments.h"

enum {
    /* Keys of a tile. The order of every sum depends on it. */
    LSI_FLASH_KEYS = 128,
    /* Queries of a task, at most. No result depends on it. */
    LSI_FLASH_QUERIES = 128,
    /* Queries and keys of a pair of blocks in the backward. As KEYS. */
    LSI_FLASH_BLOCK = 128
};

/* Rows of d elements of the user's type. */
typedef struct lsi_flash_rows {
    const void *data;
    size_t ld; /* elements from row to row */
} lsi_flash_rows;

/* L of a row that sees no key: its weight in any merge is 0. */
#define LSI_FLASH_NO_KEYS (-FLT_MAX)

/* `rows` queries of one head against all its keys. */
typedef struct lsi_flash_forward {
    lsi_flash_rows q, k, v; /* q.data: the first query of these */
    void *o;
    size_t ldo;
    float *l;
    lsi_softmax_row *saved; /* in powers of 2: max = m, scale = 1 / sum */
    size_t rows;            /* 1..LSI_FLASH_QUERIES */
    size_t first;           /* which query of its head the first one is */
    size_t keys, d;
    float scale;
    bool causal;
    float *workspace;
} lsi_flash_forward;

/* Parameters that all blocks of a backward pass share. */
typedef struct lsi_flash_backward {
    size_t d;
    size_t width; /* of a row of the gradient sums: d rounded up to lanes */
    float scale;
    bool causal;
    /* Every row is stored as the products need it, so nothing is copied. */
    bool direct;
} lsi_flash_backward;

/* Up to LSI_FLASH_BLOCK queries of one head, and the sum of their gradient. */
typedef struct lsi_flash_query_block {
    lsi_flash_rows q, o, dout;
    const lsi_softmax_row *saved;
    float *dq;     /* [rows][width] */
    float *packed; /* query_floats */
    size_t rows, first;
} lsi_flash_query_block;

/* Up to LSI_FLASH_BLOCK keys of one head, and the sums of their gradients. */
typedef struct lsi_flash_key_block {
    lsi_flash_rows k, v;
    float *dk, *dv; /* [rows][width] */
    float *packed;  /* key_floats */
    size_t rows, first;
} lsi_flash_key_block;

typedef struct lsi_flash_ops {
    size_t lanes; /* floats of a vector */

    /* Floats of workspace that `forward` needs. */
    size_t (*forward_workspace)(size_t d);
    void (*forward)(const lsi_flash_forward *task);

    /* Floats for one block of queries, one block of keys, one pair. */
    size_t (*query_floats)(const lsi_flash_backward *shared);
    size_t (*key_floats)(const lsi_flash_backward *shared);
    size_t (*pair_workspace)(void);
    /* Pack a block and set its sums to zero. */
    void (*start_queries)(const lsi_flash_backward *shared,
                          const lsi_flash_query_block *q);
    void (*start_keys)(const lsi_flash_backward *shared,
                       const lsi_flash_key_block *k);
    /* Adds what the pair contributes to dq, dk and dv. */
    void (*pair)(const lsi_flash_backward *shared,
                 const lsi_flash_query_block *q, const lsi_flash_key_block *k,
                 float *workspace);
    /* to (rows of d elements, ld apart) = from (f32, width apart). */
    void (*store)(void *to, size_t ld, const float *from, size_t width,
                  size_t rows, size_t d);

    /*
     * For the method that stores scores: a row to softmax(scale row), which
     * returns its L; and dp to p (dp - sum p dp) scale. n is at least 1.
     */
    float (*softmax_row)(float *row, size_t n, float scale);
    void (*softmax_backward_row)(float *dp, const float *p, size_t n,
                                 float scale);

    /* y = 2^x, as the tiles compute it. */
    void (*exp2)(float *y, const float *x, size_t n);
} lsi_flash_ops;

/* Of each level: [0] for f32, [1] for bf16; and those with portable bits. */
#define X(NAME, name, architecture, needs, onednn)                             \
    extern const lsi_flash_ops lsi_flash_##name[2];
#include "base/isas.def"
#undef X
extern const lsi_flash_ops lsi_flash_portable_ref, lsi_flash_portable_neon,
    lsi_flash_portable_avx2;

#endif

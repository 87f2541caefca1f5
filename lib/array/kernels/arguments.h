/*
 * Arguments of kernels other than arrays, and the sizes of the blocks of sums.
 */
#ifndef LS_ARRAY_KERNELS_ARGUMENTS_H
#define LS_ARRAY_KERNELS_ARGUMENTS_H

/*
 * Sums over the rows of a matrix are sums of this many rows, added together:
 * the same order at every level.
 */
#define LSI_COLUMN_BLOCK 32

/*
 * Sums of squares are made block by block, so that they do not depend on which
 * thread sums which blocks.
 */
#define LSI_SQUARES_BLOCK 512

/* 2^64 divided by the golden ratio: the words of SplitMix64's counter. */
#define LSI_DIGEST_STEP UINT64_C(0x9e3779b97f4a7c15)

/*
 * A row's softmax: scale e^(x - max). The logarithm of the sum of the
 * exponentials would be one number less, but rounded to f32 it loses precision
 * as the logits grow.
 */
typedef struct lsi_softmax_row {
    float max;
    float scale; /* 1 / sum of e^(x - max) */
} lsi_softmax_row;

/* The numbers of one step of AdamW; see the kernel of that name. */
typedef struct lsi_adamw {
    float grad_scale;
    float beta1, rest1; /* rest1 = 1 - beta1, rounded once */
    float beta2, rest2;
    float step;       /* the learning rate, corrected */
    float root_scale; /* of sqrt(v) */
    float eps;
    float decay_first, decay_last; /* lr * weight_decay, or 0 */
} lsi_adamw;

/* The numbers of one step of Lion. */
typedef struct lsi_lion {
    float grad_scale;
    float beta1, rest1; /* rest1 = 1 - beta1, rounded once */
    float beta2, rest2;
    float lr, decay; /* decay = lr * weight_decay */
} lsi_lion;

#endif

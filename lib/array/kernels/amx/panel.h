/*
 * The parts of a product that are written for AMX and AVX-512;
 * compute/panel_gemm.c puts them together.
 *
 * A panel is LSI_PANEL_LANES rows of A, or columns of B, over any number of
 * terms of the sum. It is stored in steps of LSI_STEP_TERMS terms, each step
 * being six tiles: of each of the three bf16 parts, one tile for each half of
 * the lanes. A tile is 16 x 16 words of two terms, (t, t + 16): rows are lanes
 * in A, terms in B. The missing part of an incomplete step or panel is zero.
 */
#ifndef LS_ARRAY_KERNELS_AMX_PANEL_H
#define LS_ARRAY_KERNELS_AMX_PANEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "array/kernels/dense.h"

enum {
    LSI_PANEL_LANES = 32,
    LSI_STEP_TERMS = 32,
    LSI_TILE_WORDS = 16 * 16,
    LSI_STEP_WORDS = 6 * LSI_TILE_WORDS,
    LSI_SUMS = LSI_PANEL_LANES * LSI_PANEL_LANES /* of two panels */
};

/* Of at most LSI_PANEL_LANES lanes. */
void lsi_amx_pack_a(uint32_t *panel, const lsi_strip *strip);
void lsi_amx_pack_b(uint32_t *panel, const lsi_strip *strip);

/* The tile configuration of a thread, in the processor's layout. */
typedef struct lsi_tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} lsi_tile_config;

/* All eight tiles are of 16 x 16 words in between. Others use tiles, too
 * (oneDNN does): they find theirs as they left them. */
void lsi_amx_begin(lsi_tile_config *before);
void lsi_amx_end(const lsi_tile_config *before);

/* Panels of A, one after another as their sums are, and one of B. */
typedef struct lsi_amx_product {
    float *sums;
    const uint32_t *a, *b;
    size_t panels, steps;
    bool add;        /* to the sums that there are */
    lsi_fetch fetch; /* asked for meanwhile */
} lsi_amx_product;

/* sums (+)= A B. Between lsi_amx_begin and lsi_amx_end. */
void lsi_amx_multiply(const lsi_amx_product *product);

/* Rows of C, of at most LSI_PANEL_LANES columns. */
typedef struct lsi_amx_result {
    float *c;
    size_t ld;
    size_t rows, cols;
    bool add;          /* to the present values */
    const float *bias; /* of each column, or NULL */
} lsi_amx_result;

/* C (+)= sums of the panels of all rows (+ bias). */
void lsi_amx_put(const lsi_amx_result *to, const float *sums);

/* The operations on panels of one level. */
typedef struct lsi_panel_ops {
    void (*pack_a)(uint32_t *panel, const lsi_strip *strip);
    void (*pack_b)(uint32_t *panel, const lsi_strip *strip);
    void (*begin)(lsi_tile_config *before);
    void (*end)(const lsi_tile_config *before);
    void (*multiply)(const lsi_amx_product *product);
    void (*put)(const lsi_amx_result *to, const float *sums);
} lsi_panel_ops;

#endif

/*
 * The pairs of blocks in the backward of a head, and the order in which every
 * sum gets its terms.
 *
 * A pair (row i of query blocks, column j of key blocks) adds to dQ_i, dK_j and
 * dV_j. The pairs of a head have steps: step s has those with i + j = s modulo
 * the number of blocks, like one symbol of a Latin square. So two pairs of a
 * step never add to the same sums. Every sum gets its terms in the order of the
 * steps, whichever worker does the pairs, and whenever. So the result is the
 * same to the last bit. The query heads that share a key head count as one
 * sequence of rows.
 *
 * So the pairs of a row, and those of a column, follow each other: first those
 * that wrap around (i + j >= steps), then the others, both by rising index.
 */
#ifndef LS_ARRAY_COMPUTE_ATTENTION_FLASH_ORDER_H
#define LS_ARRAY_COMPUTE_ATTENTION_FLASH_ORDER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct lsi_flash_order {
    size_t rows, columns;
    size_t blocks; /* rows of one query head */
    size_t seen;   /* columns that have keys in use */
    bool causal;
} lsi_flash_order;

static inline bool lsi_flash_wraps(const lsi_flash_order *o, size_t i, size_t j)
{
    return i + j >= (o->rows > o->columns ? o->rows : o->columns);
}

/* Row i sees columns 0..this-1. */
static inline size_t lsi_flash_row_length(const lsi_flash_order *o, size_t i)
{
    const size_t past = i % o->blocks + 1;
    return o->causal && past < o->seen ? past : o->seen;
}

/* How many pairs of row i come before the one with column j. */
size_t lsi_flash_place_in_row(const lsi_flash_order *o, size_t i, size_t j);

/* The row that column j has at `place`, of 0..rows-1. */
size_t lsi_flash_row_at(const lsi_flash_order *o, size_t j, size_t place);

/* The first place from `place` on where column j has a pair; rows if none. */
size_t lsi_flash_next_place(const lsi_flash_order *o, size_t j, size_t place);

#endif

/*
 * The operations that ranks do together, and their basic properties: how much
 * each rank sends and receives, and whether the data is added up on the way.
 * Each row of operations.def is one operation.
 */
#ifndef LS_COMM_STATE_OPERATION_H
#define LS_COMM_STATE_OPERATION_H

#include <stdbool.h>

typedef enum lsi_operation {
#define X(name, ...) LSI_OP_##name,
#include "comm/state/operations.def"
#undef X
    LSI_OP_COUNT
} lsi_operation;

typedef enum lsi_operation_kind {
    LSI_KIND_MOVES,    /* a public collective that only moves data */
    LSI_KIND_REDUCES,  /* a public collective that combines it */
    LSI_KIND_NESTED,   /* a part of hierarchical collectives */
    LSI_KIND_PLANS,    /* agrees on a collective to come */
    LSI_KIND_INTERNAL, /* exchanges data of the library itself */
    LSI_KIND_MEMORY,   /* makes memory; its count is in bytes */
    LSI_KIND_MESSAGE   /* between two ranks */
} lsi_operation_kind;

/* The elements, of `count`, that a rank sends or receives. */
typedef enum lsi_extent {
    LSI_EXTENT_NOTHING,
    LSI_EXTENT_BLOCK,  /* all of them */
    LSI_EXTENT_BLOCKS, /* `count` for, or of, each rank */
    LSI_EXTENT_SHARD   /* the elements that it owns */
} lsi_extent;

typedef enum lsi_root {
    LSI_ROOT_NOBODY,   /* all ranks do the same */
    LSI_ROOT_SENDER,   /* only the root sends */
    LSI_ROOT_RECEIVER, /* only the root receives */
    LSI_ROOT_ANYBODY   /* a receiver, or LSI_ROOT_ALL for everybody */
} lsi_root;

typedef struct lsi_operation_row {
    const char *name;
    lsi_operation_kind kind;
    lsi_extent sends, receives;
    lsi_root root;
    const char *count; /* meaning of that word of a call */
} lsi_operation_row;

/* The row after the last is for numbers that are not an operation. */
extern const lsi_operation_row lsi_operation_rows[LSI_OP_COUNT + 1];

static inline const lsi_operation_row *lsi_operation_of(lsi_operation operation)
{
    const bool known = (unsigned)operation < LSI_OP_COUNT;
    return &lsi_operation_rows[known ? operation : LSI_OP_COUNT];
}

static inline const char *lsi_operation_name(lsi_operation operation)
{
    return lsi_operation_of(operation)->name;
}

static inline bool lsi_operation_reduces(lsi_operation operation)
{
    return lsi_operation_of(operation)->kind == LSI_KIND_REDUCES;
}

/* Whether the blocks of the ranks differ in size; lsi_block_table has them. */
static inline bool lsi_operation_has_counts(lsi_operation operation)
{
    return operation == LSI_OP_ALL_GATHERV ||
           operation == LSI_OP_REDUCE_SCATTERV ||
           operation == LSI_OP_ALL_TO_ALLV;
}

/* Whether users choose its algorithms: it is public, or is planned by them. */
static inline bool lsi_operation_selectable(lsi_operation operation)
{
    return lsi_operation_of(operation)->kind <= LSI_KIND_REDUCES;
}

/* Whether every rank that receives a result receives all of it. */
static inline bool lsi_operation_reduces_whole(lsi_operation operation)
{
    const lsi_operation_row *row = lsi_operation_of(operation);
    return row->kind == LSI_KIND_REDUCES && row->sends == LSI_EXTENT_BLOCK &&
           row->receives == LSI_EXTENT_BLOCK;
}

#endif

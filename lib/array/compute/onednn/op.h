/*
 * A oneDNN primitive together with its arguments. Pointers are filled in at
 * each run, so that running allocates nothing.
 */
#ifndef LS_ARRAY_COMPUTE_ONEDNN_OP_H
#define LS_ARRAY_COMPUTE_ONEDNN_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "array/compute/onednn/runtime.h"

enum { LSI_ONEDNN_MAX_ARGS = 5 };

/*
 * Bytes that oneDNN keeps for a matrix product, in descriptions and code,
 * about. Measured for f32: 14 to 38 KiB with AVX2, and 44 to 65 KiB above.
 */
size_t lsi_onednn_plan_bytes(void);

typedef struct lsi_onednn_op {
    dnnl_primitive_t primitive;                    /* NULL: not made */
    dnnl_exec_arg_t args[LSI_ONEDNN_MAX_ARGS + 1]; /* the last is scratch */
    int n_args;                                    /* without scratch */
    int threads;                                   /* for which it was made */
    size_t scratch_bytes;
    bool has_run; /* the first run allocates for itself and for all */
} lsi_onednn_op;

/*
 * An attribute with scratch memory from the caller, and post operations in
 * this order if wanted: dst += old dst, relu. Destroyed by the caller.
 */
ls_status lsi_onednn_attr(dnnl_primitive_attr_t *out, bool accumulate,
                          bool relu);

/*
 * `roles` are the DNNL_ARG_* whose pointers run takes, in that order. The
 * description is only read. On failure *op is as it was.
 */
ls_status lsi_onednn_op_make(lsi_onednn_op *op, dnnl_primitive_desc_t desc,
                             const int *roles, int n_roles);

/* A copy from one memory layout to another, or an addition; roles src, dst. */
ls_status lsi_onednn_op_reorder(lsi_onednn_op *op,
                                const dnnl_memory_desc_t *src,
                                const dnnl_memory_desc_t *dst, bool accumulate);

/* Accepts an op that was not made. */
void lsi_onednn_op_free(lsi_onednn_op *op);

/* oneDNN takes the pointers of its inputs without const, too. */
static inline void *lsi_onednn_input(const void *pointer)
{
    return (void *)(uintptr_t)pointer;
}

/* scratch: scratch_bytes, 64-byte aligned. */
ls_status lsi_onednn_op_run(lsi_onednn_op *op, void *scratch,
                            void *const *pointers);

#endif

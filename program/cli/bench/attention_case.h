/*
 * One problem of the attention benches: its arrays, running it, and a check.
 */
#ifndef LS_CLI_BENCH_ATTENTION_CASE_H
#define LS_CLI_BENCH_ATTENTION_CASE_H

#include "lockstep/attention.h"

enum { LSI_ATTENTION_ARRAYS = 8 };

typedef struct lsi_attention_case {
    ls_attention_shape shape; /* one head a batch, dense */
    ls_attention_method method;
    /* q, k, v, dout, o, dq, dk, dv; NULL before _new */
    void *arrays[LSI_ATTENTION_ARRAYS];
    void *saved;
    size_t idle_bytes;   /* in use without the case */
    size_t input_bytes;  /* when the arrays, but not saved, were there */
    size_t live_bytes;   /* of the case, after its first forward */
    size_t needed_bytes; /* beyond the arrays by both passes, at least */
} lsi_attention_case;

/*
 * Fills the arrays of a case that has a shape and a method, and resets the
 * memory peak. Frees the memory that threads keep for earlier cases. The caller
 * frees the case with _free, also after an error. LS_ERR_BUDGET, ahead of
 * filling anything, if both passes need more than the memory budget leaves.
 */
ls_status lsi_attention_case_new(lsi_attention_case *c);
void lsi_attention_case_free(lsi_attention_case *c);

ls_status lsi_attention_case_forward(lsi_attention_case *c);
ls_status lsi_attention_case_backward(lsi_attention_case *c);

/* Compares some rows of o and dq with sums in double. After both passes. */
bool lsi_attention_case_is_right(const lsi_attention_case *c);

#endif

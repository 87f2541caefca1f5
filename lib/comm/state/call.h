/*
 * A collective call: the part of its arguments on which all ranks must agree.
 * It is published in each call and compared, word by word.
 */
#ifndef LS_COMM_STATE_CALL_H
#define LS_COMM_STATE_CALL_H

#include "comm/state/operation.h"
#include "lockstep/status.h"
#include "lockstep/types.h"

/* As a root of gather_shards: everybody gets the result. */
enum { LSI_ROOT_ALL = -1 };

/* The root of ls_group_select is this + the bits of the process. */
enum { LSI_ROOT_BITS = 1 };

/*
 * A reduction of LSI_PREMUL + a type: the sum of elements of that type, which
 * each rank has multiplied by a separate factor. The call's type is the one in
 * which the sum is computed.
 */
enum { LSI_PREMUL = 16 };

typedef struct lsi_call {
    lsi_operation operation;
    ls_dtype dtype;
    ls_reduce_op redop;
    int root; /* if counts differ among ranks: their hash */
    size_t count;
    ls_status refusal; /* why this rank cannot take part; LS_OK if it can */
} lsi_call;

/* The two words that represent a call in shared memory. */
typedef struct lsi_fingerprint {
    uint64_t what, count;
} lsi_fingerprint;

/* The step on two partial results; an average is a sum until the end. */
static inline ls_reduce_op lsi_call_step(const lsi_call *call)
{
    return call->redop == LS_REDUCE_AVG || (int)call->redop >= LSI_PREMUL
               ? LS_REDUCE_SUM
               : call->redop;
}

/* The type and the reduction that the caller has named. */
ls_dtype lsi_call_dtype(const lsi_call *call);
const char *lsi_call_redop_name(const lsi_call *call);

lsi_fingerprint lsi_fingerprint_of(const lsi_call *call);
lsi_call lsi_fingerprint_call(lsi_fingerprint fingerprint);

/* "all_reduce of 10 f32 (sum)"; cut to fit. Returns text. */
const char *lsi_call_text(const lsi_call *call, char *text, size_t bytes);

/* Of count elements, if the operation has any. */
uint64_t lsi_call_bytes(const lsi_call *call);

/* The first argument in which the two differ: "count", "root", ... */
const char *lsi_call_difference(const lsi_call *a, const lsi_call *b);

#endif

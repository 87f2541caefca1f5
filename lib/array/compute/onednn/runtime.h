/*
 * State shared by everything that oneDNN does: the engine of the process, and
 * for each thread a stream and one block of scratch memory. All plans of the
 * thread use that block in turn.
 */
#ifndef LS_ARRAY_COMPUTE_ONEDNN_RUNTIME_H
#define LS_ARRAY_COMPUTE_ONEDNN_RUNTIME_H

#include <stddef.h>

#include <oneapi/dnnl/dnnl.h>

#include "array/compute/onednn/scratch.h"
#include "lockstep/status.h"
#include "lockstep/types.h"

typedef struct lsi_onednn_thread {
    dnnl_stream_t stream;
    char *scratch;
    size_t scratch_bytes;
} lsi_onednn_thread;

/* LS_OK, or records that `what` failed and why. */
ls_status lsi_onednn_check(dnnl_status_t status, const char *what);

/* f32 or bf16. */
static inline dnnl_data_type_t lsi_onednn_dtype(ls_dtype dtype)
{
    return dtype == LS_F32 ? dnnl_f32 : dnnl_bf16;
}

/* The engine, limited to the level of LOCKSTEP_ISA; made on first use. */
ls_status lsi_onednn_engine(dnnl_engine_t *out);

/*
 * The calling thread's part, made on first use. LS_ERR_MEMORY without room for
 * the threads that oneDNN will start.
 */
ls_status lsi_onednn_thread_get(lsi_onednn_thread **out);

#endif

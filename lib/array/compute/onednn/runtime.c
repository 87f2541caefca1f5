/* The engine, and the state of each thread. */
#include "array/compute/onednn/runtime.h"

#include <pthread.h>
#include <stdio.h>

#include "array/compute/dense.h"
#include "array/compute/onednn/calls.h"
#include "array/compute/plan_cache.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "base/error.h"
#include "base/memory.h"

static pthread_once_t init_once = PTHREAD_ONCE_INIT;
static dnnl_engine_t engine;
static dnnl_status_t init_status;
static char version_text[32];

static const char *status_text(dnnl_status_t status)
{
    switch (status) {
    case dnnl_out_of_memory:
        return "out of memory";
    case dnnl_invalid_arguments:
        return "invalid arguments";
    case dnnl_unimplemented:
        return "not implemented for these shapes and types";
    default:
        return "runtime error";
    }
}

ls_status lsi_onednn_check(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return LS_OK;
    ls_status code = LS_ERR_SYSTEM;
    if (status == dnnl_out_of_memory)
        code = LS_ERR_MEMORY;
    else if (status == dnnl_unimplemented)
        code = LS_ERR_UNSUPPORTED;
    return lsi_fail(code, "oneDNN could not %s: %s", what, status_text(status));
}

static const dnnl_cpu_isa_t highest_isa[LSI_ISA_COUNT] = {
#define X(NAME, name, architecture, needs, onednn) dnnl_cpu_isa_##onednn,
#include "base/isas.def"
#undef X
};

static void init(void)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(version_text, sizeof(version_text), "oneDNN %d.%d.%d", v->major,
             v->minor, v->patch);
    /*
     * oneDNN keeps the primitives that it has made, by default 1,024, so
     * dropping a plan would free nothing. A capacity equal to the number of
     * plans lets threads share primitives. ONEDNN_PRIMITIVE_CACHE_CAPACITY may
     * set a lower one.
     */
    init_status = lsi_dnnl_limit_primitives(LSI_PLAN_LIMIT);
    if (init_status == dnnl_success)
        init_status =
            lsi_dnnl_set_max_cpu_isa(highest_isa[lsi_kernels_get()->isa]);
    if (init_status == dnnl_success)
        init_status = lsi_dnnl_engine_create(&engine, dnnl_cpu, 0);
}

void lsi_dense_init(void)
{
    pthread_once(&init_once, init);
}

const char *lsi_dense_version(void)
{
    lsi_dense_init();
    return version_text;
}

ls_status lsi_onednn_engine(dnnl_engine_t *out)
{
    lsi_dense_init();
    LS_TRY(lsi_onednn_check(init_status, "start"));
    *out = engine;
    return LS_OK;
}

static ls_status make_thread(const void *key, void **out)
{
    (void)key;
    dnnl_engine_t e;
    LS_TRY(lsi_onednn_engine(&e));
    lsi_onednn_thread *thread;
    LS_TRY(lsi_alloc_zeroed(&thread, sizeof(lsi_onednn_thread), LS_MEMORY_OTHER,
                            "oneDNN state of a thread"));
    const dnnl_status_t status =
        lsi_dnnl_stream_create(&thread->stream, e, dnnl_stream_default_flags);
    if (status != dnnl_success) {
        lsi_free(thread);
        return lsi_onednn_check(status, "create a stream");
    }
    *out = thread;
    return LS_OK;
}

static void free_thread(void *argument)
{
    lsi_onednn_thread *thread = argument;
    dnnl_stream_destroy(thread->stream);
    lsi_free(thread->scratch);
    lsi_free(thread);
}

static const lsi_plan_kind thread_kind = {.name = "oneDNN state of a thread",
                                          .key_bytes = 1,
                                          .make = make_thread,
                                          .destroy = free_thread};

ls_status lsi_onednn_thread_get(lsi_onednn_thread **out)
{
    void *thread;
    LS_TRY(lsi_threads_ask());
    LS_TRY(lsi_plan_cache_get(&thread_kind, "", &thread));
    *out = thread;
    return LS_OK;
}

ls_status lsi_onednn_reserve(size_t bytes, char **out)
{
    lsi_onednn_thread *thread;
    LS_TRY(lsi_onednn_thread_get(&thread));
    if (bytes > thread->scratch_bytes) {
        lsi_free(thread->scratch);
        thread->scratch = NULL;
        thread->scratch_bytes = 0;
        LS_TRY(lsi_alloc(&thread->scratch, bytes, LS_MEMORY_WORKSPACE,
                         "oneDNN scratch memory"));
        thread->scratch_bytes = bytes;
    }
    *out = thread->scratch;
    return LS_OK;
}

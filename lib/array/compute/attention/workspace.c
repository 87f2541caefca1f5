/* The workspace that a thread keeps for all its attention. */
#include "array/compute/attention/attention.h"
#include "array/compute/plan_cache.h"
#include "base/error.h"
#include "base/memory.h"

typedef struct workspace {
    void *memory;
    size_t bytes;
} workspace;

static ls_status make(const void *key, void **out)
{
    (void)key;
    return lsi_alloc_zeroed(out, sizeof(workspace), LS_MEMORY_OTHER,
                            "attention's workspace");
}

static void destroy(void *argument)
{
    workspace *w = argument;
    lsi_free(w->memory);
    lsi_free(w);
}

static const lsi_plan_kind kind = {.name = "attention's workspace",
                                   .key_bytes = 1,
                                   .make = make,
                                   .destroy = destroy};

ls_status lsi_attention_workspace(size_t bytes, const char *what, void **out)
{
    void *plan;
    LS_TRY(lsi_plan_cache_get(&kind, "", &plan));
    workspace *w = plan;
    if (bytes > w->bytes) {
        lsi_free(w->memory);
        *w = (workspace){.bytes = 0};
        LS_TRY(lsi_alloc(&w->memory, bytes, LS_MEMORY_WORKSPACE, what));
        w->bytes = bytes;
    }
    *out = w->memory;
    return LS_OK;
}

/* Memory that a thread keeps for the next call of the same kind. */
#include "array/compute/plan_cache.h"
#include "base/error.h"
#include "base/memory.h"

typedef struct workspace {
    void *memory;
    size_t bytes;
} workspace;

ls_status lsi_workspace_make(const void *key, void **out)
{
    (void)key;
    return lsi_alloc_zeroed(out, sizeof(workspace), LS_MEMORY_OTHER,
                            "compute workspace");
}

void lsi_workspace_destroy(void *argument)
{
    workspace *w = argument;
    lsi_free(w->memory);
    lsi_free(w);
}

ls_status lsi_workspace_get(const lsi_plan_kind *kind, size_t bytes,
                            const char *what, void **out)
{
    void *plan;
    LS_TRY(lsi_plan_cache_get(kind, "", &plan));
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

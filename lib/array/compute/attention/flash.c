/*
 * FlashAttention-2, forward: blocks of queries of all heads are independent
 * tasks, dealt out to the threads one at a time.
 */
#include "array/compute/attention/attention.h"
#include "array/compute/work.h"

#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "base/error.h"

typedef struct forward_run {
    const lsi_attention *a;
    const lsi_flash_ops *ops;
    lsi_attention_inputs in;
    void *o;
    float *l;
    lsi_softmax_row *saved;
    float *workspace;
    size_t workspace_floats; /* of one worker */
    size_t rows;             /* of a block */
    size_t blocks;           /* of a head */
    size_t group;            /* heads whose blocks alternate */
} forward_run;

/* A block of queries: which head of the batch, which query of it is first. */
typedef struct forward_place {
    size_t head, first;
} forward_place;

/*
 * Groups of heads go by one after another, so that a head's keys are still in
 * the cache for its next block. In a group the last blocks come first: under a
 * causal mask they have the most work.
 */
static forward_place place_of(const forward_run *r, size_t task)
{
    const size_t heads = r->a->batch * r->a->heads;
    const size_t before = task / (r->group * r->blocks) * r->group;
    const size_t left = heads - before;
    const size_t together = left < r->group ? left : r->group;
    const size_t in_group = task - before * r->blocks;
    return (forward_place){before + in_group % together,
                           (r->blocks - 1 - in_group / together) * r->rows};
}

static void forward_task(void *context, size_t task, int worker)
{
    const forward_run *r = context;
    const lsi_attention *a = r->a;
    const forward_place place = place_of(r, task);
    const size_t batch = place.head / a->heads, head = place.head % a->heads;
    const size_t first = place.first;
    const size_t left = a->queries - first;
    const size_t kv = head / a->group;
    const size_t row = (batch * a->heads + head) * a->queries + first;
    const lsi_flash_rows o =
        lsi_attention_rows(a, r->o, a->o_strides, batch, head, first);
    const lsi_flash_forward f = {
        .q = lsi_attention_rows(a, r->in.q, a->q_strides, batch, head, first),
        .k = lsi_attention_rows(a, r->in.k, a->kv_strides, batch, kv, 0),
        .v = lsi_attention_rows(a, r->in.v, a->kv_strides, batch, kv, 0),
        .o = (void *)(uintptr_t)o.data,
        .ldo = o.ld,
        .l = r->l + row,
        .saved = r->saved + row,
        .rows = left < r->rows ? left : r->rows,
        .first = a->first + first,
        .keys = lsi_attention_keys(a, batch),
        .d = a->d,
        .scale = a->scale,
        .causal = a->causal,
        .workspace = r->workspace + (size_t)worker * r->workspace_floats};
    r->ops->forward(&f);
}

/*
 * Large blocks read the keys less often; small ones spread over threads more
 * evenly. No bit of the result depends on it.
 */
static size_t block_rows(const lsi_attention *a)
{
    const size_t enough = 4 * (size_t)lsi_threads();
    size_t rows = LSI_FLASH_QUERIES;
    while (rows > 32 && a->batch * a->heads * a->queries / rows < enough)
        rows /= 2;
    return rows;
}

ls_status lsi_attention_flash_forward(const lsi_attention *a, void *o,
                                      float *saved, lsi_attention_inputs in)
{
    LSI_SPAN(KERNEL, "flash_attention", lsi_attention_bytes(a, 4),
             lsi_attention_work(a, 2));
    const size_t heads = a->batch * a->heads;
    if (heads == 0 || a->queries == 0)
        return LS_OK;
    forward_run r = {.a = a,
                     .ops = lsi_kernels_get()->flash[a->half],
                     .in = in,
                     .o = o,
                     .l = saved,
                     .saved = lsi_attention_softmax_rows(a, saved),
                     .rows = block_rows(a),
                     .group = (size_t)lsi_threads()};
    r.blocks = (a->queries + r.rows - 1) / r.rows;
    r.workspace_floats = r.ops->forward_workspace(a->d);
    const size_t bytes =
        (size_t)lsi_threads() * r.workspace_floats * sizeof(float);
    void *workspace;
    LS_TRY(lsi_attention_workspace(bytes, "attention forward workspace",
                                   &workspace));
    r.workspace = workspace;
    lsi_parallel_tasks(heads * r.blocks, forward_task, &r);
    return LS_OK;
}

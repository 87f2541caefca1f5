/*
 * FlashAttention-2, backward, with five products a pair of blocks and without
 * atomics on its results. The order of the sums (flash_order.h) makes the
 * result the same on any number of threads.
 *
 * In whole rounds of heads, each worker does one head; the remaining heads are
 * divided among all workers. Both take pairs from a queue, alone or together.
 */
#include "array/compute/attention/attention.h"
#include "array/compute/work.h"

#include "array/compute/attention/flash_queue.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "base/error.h"

enum { BLOCK = LSI_FLASH_BLOCK };

typedef struct backward_run {
    const lsi_attention *a;
    const lsi_flash_ops *ops;
    lsi_attention_inputs in;
    lsi_attention_gradients g;
    lsi_flash_backward shared;
    size_t query_blocks; /* of one query head */
    size_t key_blocks;
    size_t query_floats, key_floats, pair_floats;
    size_t head_floats; /* memory of one key head: sums and packed blocks */
    float *heads;       /* of each worker, or of each head that is divided */
    float *pairs;       /* of each worker */
    char *queues;       /* of each worker, or one of all divided heads */
    size_t queue_bytes; /* of one head */
    size_t first;       /* of the heads that are divided */
    size_t divided;     /* how many; fewer than workers */
} backward_run;

static size_t blocks_of(size_t n)
{
    return (n + BLOCK - 1) / BLOCK;
}

static size_t rows_of(size_t n, size_t block)
{
    const size_t left = n - block * BLOCK;
    return left < BLOCK ? left : BLOCK;
}

/* All query blocks of the heads that share a key head. */
static size_t row_blocks(const backward_run *r)
{
    return r->a->group * r->query_blocks;
}

/* ---- places in memory ---------------------------------------------------- */

/* Memory of a head: packed query blocks, packed key blocks, dQ, dK, dV. */
static size_t query_sums_at(const backward_run *r)
{
    return row_blocks(r) * r->query_floats + r->key_blocks * r->key_floats;
}

static size_t key_sums_at(const backward_run *r)
{
    const size_t rows = r->shared.direct ? 0 : row_blocks(r) * BLOCK;
    return query_sums_at(r) + rows * r->shared.width;
}

static size_t head_floats(const backward_run *r)
{
    const size_t rows = r->shared.direct ? 0 : r->key_blocks * BLOCK;
    return key_sums_at(r) + 2 * rows * r->shared.width;
}

static void *writable(lsi_flash_rows rows)
{
    return (void *)(uintptr_t)rows.data;
}

/* Query block `i` of the group of key head `kv` (of all batches). */
static lsi_flash_query_block query_block(const backward_run *r, size_t kv,
                                         float *memory, size_t i)
{
    const lsi_attention *a = r->a;
    const size_t batch = kv / a->kv_heads, block = i % r->query_blocks;
    const size_t head = kv % a->kv_heads * a->group + i / r->query_blocks;
    const size_t first = block * BLOCK;
    const lsi_flash_rows dq =
        lsi_attention_rows(a, r->g.dq, a->q_strides, batch, head, first);
    float *sums = memory + query_sums_at(r) + i * BLOCK * r->shared.width;
    return (lsi_flash_query_block){
        .q = lsi_attention_rows(a, r->in.q, a->q_strides, batch, head, first),
        .o = lsi_attention_rows(a, r->g.o, a->o_strides, batch, head, first),
        .dout =
            lsi_attention_rows(a, r->g.dout, a->o_strides, batch, head, first),
        .saved = lsi_attention_softmax_rows(a, r->g.saved) +
                 (batch * a->heads + head) * a->queries + first,
        .dq = r->shared.direct ? writable(dq) : sums,
        .packed = memory + i * r->query_floats,
        .rows = rows_of(a->queries, block),
        .first = first};
}

static lsi_flash_rows key_rows(const backward_run *r, const void *base,
                               size_t kv, size_t j)
{
    const lsi_attention *a = r->a;
    return lsi_attention_rows(a, base, a->kv_strides, kv / a->kv_heads,
                              kv % a->kv_heads, j * BLOCK);
}

static lsi_flash_key_block key_block(const backward_run *r, size_t kv,
                                     float *memory, size_t j)
{
    const size_t size = r->key_blocks * BLOCK * r->shared.width;
    float *sums = memory + key_sums_at(r) + j * BLOCK * r->shared.width;
    const bool direct = r->shared.direct;
    return (lsi_flash_key_block){
        .k = key_rows(r, r->in.k, kv, j),
        .v = key_rows(r, r->in.v, kv, j),
        .dk = direct ? writable(key_rows(r, r->g.dk, kv, j)) : sums,
        .dv = direct ? writable(key_rows(r, r->g.dv, kv, j)) : sums + size,
        .packed = memory + row_blocks(r) * r->query_floats + j * r->key_floats,
        .rows = rows_of(r->a->keys, j),
        .first = j * BLOCK};
}

/* ---- one head ------------------------------------------------------------ */

/* Packs block `n` of a head: its query blocks first, then its key blocks. */
static void start_block(const backward_run *r, size_t kv, float *memory,
                        size_t n)
{
    const size_t rows = row_blocks(r);
    if (n < rows) {
        const lsi_flash_query_block q = query_block(r, kv, memory, n);
        r->ops->start_queries(&r->shared, &q);
    } else {
        const lsi_flash_key_block k = key_block(r, kv, memory, n - rows);
        r->ops->start_keys(&r->shared, &k);
    }
}

/* Turns the sums of block `n` into gradients, unless they are already. */
static void finish_block(const backward_run *r, size_t kv, float *memory,
                         size_t n)
{
    const lsi_attention *a = r->a;
    const size_t rows = row_blocks(r), width = r->shared.width;
    if (r->shared.direct)
        return;
    if (n < rows) {
        const lsi_flash_query_block q = query_block(r, kv, memory, n);
        const lsi_flash_rows dq = lsi_attention_rows(
            a, r->g.dq, a->q_strides, kv / a->kv_heads,
            kv % a->kv_heads * a->group + n / r->query_blocks, q.first);
        r->ops->store(writable(dq), dq.ld, q.dq, width, q.rows, a->d);
        return;
    }
    const lsi_flash_key_block k = key_block(r, kv, memory, n - rows);
    const lsi_flash_rows dk = key_rows(r, r->g.dk, kv, n - rows);
    const lsi_flash_rows dv = key_rows(r, r->g.dv, kv, n - rows);
    r->ops->store(writable(dk), dk.ld, k.dk, width, k.rows, a->d);
    r->ops->store(writable(dv), dv.ld, k.dv, width, k.rows, a->d);
}

/* Blocks that add nothing to any sum: their gradient is zero. */
static void clear_unseen(const backward_run *r, size_t kv, float *memory,
                         const lsi_flash_order *o)
{
    for (size_t i = 0; i < o->rows; i++) {
        if (lsi_flash_row_length(o, i) > 0)
            continue;
        start_block(r, kv, memory, i);
        finish_block(r, kv, memory, i);
    }
    for (size_t j = 0; j < o->columns; j++) {
        if (lsi_flash_next_place(o, j, 0) < o->rows)
            continue;
        start_block(r, kv, memory, o->rows + j);
        finish_block(r, kv, memory, o->rows + j);
    }
}

/*
 * A pair of blocks. The worker of the first pair of a row or a column packs it,
 * and the worker of the last pair stores its gradient. Then they are in that
 * worker's cache.
 */
static void do_pair(const backward_run *r, size_t kv, float *memory,
                    const lsi_flash_order *o, const lsi_flash_turn *t,
                    float *workspace)
{
    const size_t in_row = lsi_flash_place_in_row(o, t->row, t->column);
    const size_t keys = lsi_attention_keys(r->a, kv / r->a->kv_heads);
    const lsi_flash_query_block q = query_block(r, kv, memory, t->row);
    lsi_flash_key_block k = key_block(r, kv, memory, t->column);
    if (in_row == 0)
        start_block(r, kv, memory, t->row);
    if (lsi_flash_next_place(o, t->column, 0) == t->place)
        start_block(r, kv, memory, o->rows + t->column);
    if (keys - k.first < k.rows)
        k.rows = keys - k.first;
    r->ops->pair(&r->shared, &q, &k, workspace);
    if (in_row + 1 == lsi_flash_row_length(o, t->row))
        finish_block(r, kv, memory, t->row);
    if (lsi_flash_next_place(o, t->column, t->place + 1) == o->rows)
        finish_block(r, kv, memory, o->rows + t->column);
}

/* ---- the two ways to share out the work --------------------------------- */

/* Pairs of the heads from `first` on, as long as the queue has some. */
static void do_pairs(const backward_run *r, lsi_flash_queue *queue,
                     size_t first, float *memory, int worker, float *workspace)
{
    lsi_flash_turn t = {.head = 0};
    while (lsi_flash_queue_claim(queue, worker, &t)) {
        do_pair(r, first + t.head, memory + t.head * r->head_floats,
                &queue->orders[t.head], &t, workspace);
        lsi_flash_queue_done(queue, &t);
    }
}

/* A queue of `heads` heads; blocks without a pair are already cleared. */
static lsi_flash_queue set_up(const backward_run *r, void *at, size_t first,
                              size_t heads, float *memory, int workers)
{
    const lsi_flash_order order = {.rows = row_blocks(r),
                                   .columns = r->key_blocks,
                                   .blocks = r->query_blocks,
                                   .causal = r->a->causal};
    lsi_flash_queue queue = lsi_flash_queue_make(at, heads, workers, &order);
    for (size_t h = 0; h < heads; h++) {
        const size_t batch = (first + h) / r->a->kv_heads;
        queue.orders[h].seen = blocks_of(lsi_attention_keys(r->a, batch));
        clear_unseen(r, first + h, memory + h * r->head_floats,
                     &queue.orders[h]);
    }
    lsi_flash_queue_start(&queue);
    return queue;
}

static void head_task(void *context, size_t kv, int worker)
{
    const backward_run *r = context;
    float *memory = r->heads + (size_t)worker * r->head_floats;
    lsi_flash_queue queue = set_up(
        r, r->queues + (size_t)worker * r->queue_bytes, kv, 1, memory, 1);
    do_pairs(r, &queue, kv, memory, 0,
             r->pairs + (size_t)worker * r->pair_floats);
}

typedef struct divided_run {
    const backward_run *r;
    lsi_flash_queue queue;
} divided_run;

static void divided_heads(void *context, int worker, int workers)
{
    divided_run *d = context;
    const backward_run *r = d->r;
    (void)workers;
    do_pairs(r, &d->queue, r->first, r->heads, worker,
             r->pairs + (size_t)worker * r->pair_floats);
}

static void run_divided(const backward_run *r)
{
    if (r->divided == 0)
        return;
    divided_run d = {.r = r,
                     .queue = set_up(r, r->queues, r->first, r->divided,
                                     r->heads, lsi_threads())};
    lsi_parallel_team(divided_heads, &d);
}

/* ---- the whole ---------------------------------------------------------- */

static bool rows_are_dense(const lsi_attention *a)
{
    const int64_t d = (int64_t)a->d;
    return a->q_strides.row == d && a->kv_strides.row == d &&
           a->o_strides.row == d;
}

static backward_run plan_backward(const lsi_attention *a,
                                  lsi_attention_inputs in,
                                  lsi_attention_gradients g)
{
    backward_run r = {.a = a,
                      .ops = lsi_kernels_get()->flash[a->half],
                      .in = in,
                      .g = g,
                      .query_blocks = blocks_of(a->queries),
                      .key_blocks = blocks_of(a->keys)};
    const size_t lanes = r.ops->lanes;
    r.shared = (lsi_flash_backward){.d = a->d,
                                    .width = (a->d + lanes - 1) / lanes * lanes,
                                    .scale = a->scale,
                                    .causal = a->causal,
                                    .direct = !a->half && a->d % lanes == 0 &&
                                              rows_are_dense(a)};
    r.query_floats = r.ops->query_floats(&r.shared);
    r.key_floats = r.ops->key_floats(&r.shared);
    r.pair_floats = r.ops->pair_workspace();
    r.head_floats = head_floats(&r);
    r.queue_bytes = lsi_flash_queue_bytes(1, row_blocks(&r), r.key_blocks);
    return r;
}

/* Memory of the heads that are worked on, of the pairs, and of the queues. */
static ls_status allocate_memory(backward_run *r, size_t heads, size_t workers)
{
    const size_t at_once = workers < heads ? workers : heads;
    const size_t heads_floats = at_once * r->head_floats;
    const size_t floats = heads_floats + workers * r->pair_floats;
    void *memory;
    LS_TRY(lsi_attention_workspace(floats * sizeof(float) +
                                       at_once * r->queue_bytes,
                                   "attention backward workspace", &memory));
    r->heads = memory;
    r->pairs = r->heads + heads_floats;
    r->queues = (char *)(r->heads + floats);
    return LS_OK;
}

ls_status lsi_attention_flash_backward(const lsi_attention *a,
                                       lsi_attention_inputs in,
                                       lsi_attention_gradients g)
{
    LSI_SPAN(KERNEL, "flash_attention_backward", lsi_attention_bytes(a, 8),
             lsi_attention_work(a, 5));
    backward_run r = plan_backward(a, in, g);
    const size_t heads = a->batch * a->kv_heads;
    const size_t workers = (size_t)lsi_threads();
    if (heads == 0)
        return LS_OK;
    LS_TRY(allocate_memory(&r, heads, workers));
    r.divided = heads % workers;
    r.first = heads - r.divided;
    lsi_parallel_tasks(r.first, head_task, &r);
    run_divided(&r);
    return LS_OK;
}

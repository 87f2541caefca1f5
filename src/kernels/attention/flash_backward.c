/*
 * FlashAttention-2, backward, with five products a pair of blocks and without
 * atomics.
 *
 * A pair (query block i, key block j) adds to dQ_i, dK_j and dV_j. The pairs
 * of a head are done in steps: step s has the pairs with i + j = s modulo the
 * number of blocks, like one symbol of a Latin square, so that no two pairs of
 * a step add to the same sums. (j - i = s would do as well, but under a causal
 * mask its steps differ in length, and threads would wait.) Every sum therefore
 * sees its terms in one fixed order, whether a step's pairs run at once or one
 * after another. The query heads that share a key head count as one sequence of
 * query blocks.
 *
 * With many heads a task is a head; with few, heads go through the steps
 * together and a task is a pair. Both give the same bits: a head alone takes
 * its pairs in another order, but not those of any one sum.
 */
#include "kernels/attention/attention.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "kernels/kernels.h"

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
    float *heads;       /* of each head, or of each worker */
    float *pairs;       /* of each worker */
    size_t step;
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

static size_t steps_of(const backward_run *r)
{
    const size_t rows = row_blocks(r);
    return rows > r->key_blocks ? rows : r->key_blocks;
}

/* ---- where things lie --------------------------------------------------- */

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
        .l = r->g.saved + (batch * a->heads + head) * a->queries + first,
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

/* ---- what is done to a head --------------------------------------------- */

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

/* The pair of query block `i` and key block `j`, if it sees anything. */
static void do_pair(const backward_run *r, size_t kv, float *memory, size_t i,
                    size_t j, int worker)
{
    const lsi_flash_query_block q = query_block(r, kv, memory, i);
    lsi_flash_key_block k = key_block(r, kv, memory, j);
    const size_t keys = lsi_attention_keys(r->a, kv / r->a->kv_heads);
    if (k.first >= keys || (r->a->causal && k.first >= q.first + q.rows))
        return;
    if (keys - k.first < k.rows)
        k.rows = keys - k.first;
    r->ops->pair(&r->shared, &q, &k,
                 r->pairs + (size_t)worker * r->pair_floats);
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

/* ---- the two ways to share out the work --------------------------------- */

/*
 * The pairs whose step is i + j less the number of steps (`wrapped`), or i + j.
 * All of the first come before any of the second, and within either a larger i
 * or j means a later step: so may rows be taken two at a time, which stay in
 * the second-level cache while the keys pass by once for both.
 */
static void do_pairs(const backward_run *r, size_t kv, float *memory,
                     bool wrapped, int worker)
{
    const size_t rows = row_blocks(r), steps = steps_of(r);
    for (size_t first = 0; first < rows; first += 2)
        for (size_t j = 0; j < r->key_blocks; j++)
            for (size_t i = first; i < first + 2 && i < rows; i++)
                if ((i + j >= steps) == wrapped)
                    do_pair(r, kv, memory, i, j, worker);
}

static void head_task(void *context, size_t kv, int worker)
{
    const backward_run *r = context;
    const size_t rows = row_blocks(r), blocks = rows + r->key_blocks;
    float *memory = r->heads + (size_t)worker * r->head_floats;
    for (size_t n = 0; n < blocks; n++)
        start_block(r, kv, memory, n);
    do_pairs(r, kv, memory, true, worker);
    do_pairs(r, kv, memory, false, worker);
    for (size_t n = 0; n < blocks; n++)
        finish_block(r, kv, memory, n);
}

static void start_task(void *context, size_t task, int worker)
{
    const backward_run *r = context;
    const size_t blocks = row_blocks(r) + r->key_blocks;
    (void)worker;
    start_block(r, task / blocks, r->heads + task / blocks * r->head_floats,
                task % blocks);
}

static void pair_task(void *context, size_t task, int worker)
{
    const backward_run *r = context;
    const size_t rows = row_blocks(r), steps = steps_of(r), kv = task / rows;
    /* From the end: pairs on a causal diagonal, which are shorter, come late.
     */
    const size_t i = rows - 1 - task % rows, j = (r->step + steps - i) % steps;
    if (j < r->key_blocks)
        do_pair(r, kv, r->heads + kv * r->head_floats, i, j, worker);
}

static void finish_task(void *context, size_t task, int worker)
{
    const backward_run *r = context;
    const size_t blocks = row_blocks(r) + r->key_blocks;
    (void)worker;
    finish_block(r, task / blocks, r->heads + task / blocks * r->head_floats,
                 task % blocks);
}

static void run_in_steps(backward_run *r, size_t heads)
{
    const size_t rows = row_blocks(r), blocks = rows + r->key_blocks;
    lsi_parallel_tasks(heads * blocks, start_task, r);
    for (r->step = 0; r->step < steps_of(r); r->step++)
        lsi_parallel_tasks(heads * rows, pair_task, r);
    lsi_parallel_tasks(heads * blocks, finish_task, r);
}

/* ---- the whole ---------------------------------------------------------- */

static bool rows_are_dense(const lsi_attention *a)
{
    const int64_t d = (int64_t)a->d;
    return a->q_strides.row == d && a->kv_strides.row == d &&
           a->o_strides.row == d;
}

static backward_run plan(const lsi_attention *a, lsi_attention_inputs in,
                         lsi_attention_gradients g)
{
    backward_run r = {.a = a,
                      .ops = &lsi_flash_at(lsi_kernels_get()->isa)[a->half],
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
    return r;
}

ls_status lsi_flash_backward_all(const lsi_attention *a,
                                 lsi_attention_inputs in,
                                 lsi_attention_gradients g)
{
    backward_run r = plan(a, in, g);
    const size_t heads = a->batch * a->kv_heads;
    const size_t workers = (size_t)lsi_threads();
    const bool by_head = workers == 1 || heads >= 4 * workers;
    const size_t at_once = by_head && workers < heads ? workers : heads;
    const size_t floats = at_once * r.head_floats + workers * r.pair_floats;
    void *memory;
    if (heads == 0)
        return LS_OK;
    LS_TRY(lsi_alloc(&memory, floats * sizeof(float), LS_MEMORY_WORKSPACE,
                     "attention's backward"));
    r.heads = memory;
    r.pairs = r.heads + at_once * r.head_floats;
    if (by_head)
        lsi_parallel_tasks(heads, head_task, &r);
    else
        run_in_steps(&r, heads);
    lsi_free(memory);
    return LS_OK;
}

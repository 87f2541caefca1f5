/*
 * FlashAttention-2, backward, with five products a pair of blocks and without
 * atomics.
 *
 * A pair (query block i, key block j) adds to dQ_i, dK_j and dV_j. The pairs
 * of a head have steps: step s has those with i + j = s modulo the number of
 * blocks, like one symbol of a Latin square, so that no two pairs of a step add
 * to the same sums. Every sum sees its terms in the order of the steps, however
 * the pairs of a step follow each other. The query heads that share a key head
 * count as one sequence of query blocks.
 *
 * Whole rounds of heads are one head a worker; the heads that are left are
 * divided among several workers. Both give the same bits: a head alone takes
 * its pairs in another order, but not those of any one sum.
 */
#include "kernels/attention/attention.h"

#include <sched.h>
#include <stdatomic.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/partition.h"
#include "base/threads.h"
#include "kernels/kernels.h"

enum { BLOCK = LSI_FLASH_BLOCK, ROWS_AT_ONCE = 2, SPINS = 2000 };

/* On a cache line of its own. */
typedef struct progress {
    _Alignas(64) atomic_size_t rows;
} progress;

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
    progress *progress; /* of each worker */
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

/* What one worker does of a head: all rows of some columns. */
typedef struct share {
    const backward_run *r;
    size_t kv;
    float *memory;
    size_t begin, end; /* key blocks */
    int worker;
} share;

/*
 * Pairs of a row that wrap around (i + j >= steps) belong to an earlier step
 * than those that do not, and within either a larger i or j means a later step:
 * so may rows be taken two at a time, which stay in the second-level cache
 * while the keys pass by once for both, first all that wrap.
 */
static void do_rows(const share *s, size_t first, size_t end, bool wrapped)
{
    const size_t steps = steps_of(s->r);
    for (size_t j = s->begin; j < s->end; j++)
        for (size_t i = first; i < end; i++)
            if ((i + j >= steps) == wrapped)
                do_pair(s->r, s->kv, s->memory, i, j, s->worker);
}

static size_t rows_end(size_t first, size_t rows)
{
    return rows - first < ROWS_AT_ONCE ? rows : first + ROWS_AT_ONCE;
}

static void head_task(void *context, size_t kv, int worker)
{
    const backward_run *r = context;
    const size_t rows = row_blocks(r), blocks = rows + r->key_blocks;
    const share all = {.r = r,
                       .kv = kv,
                       .memory = r->heads + (size_t)worker * r->head_floats,
                       .end = r->key_blocks,
                       .worker = worker};
    for (size_t n = 0; n < blocks; n++)
        start_block(r, kv, all.memory, n);
    for (int wrapped = 1; wrapped >= 0; wrapped--)
        for (size_t i = 0; i < rows; i += ROWS_AT_ONCE)
            do_rows(&all, i, rows_end(i, rows), wrapped);
    for (size_t n = 0; n < blocks; n++)
        finish_block(r, kv, all.memory, n);
}

/* ---- a head that several workers divide -----------------------------------
 *
 * Each member of a team has some columns and goes over the rows as one worker
 * alone does. The pairs of a row follow each other from member to member, and
 * from the last to the first between those that wrap around and the others. So
 * a member waits until its left neighbour has done the same rows; it seldom has
 * to, for each begins in a triangle of pairs for which it needs nobody.
 */

typedef struct team {
    int first, size; /* its workers */
    size_t done;     /* progress of each member when it begins a head */
} team;

static void wait_for(progress *p, size_t rows)
{
    for (int spins = 0;
         atomic_load_explicit(&p->rows, memory_order_acquire) < rows;) {
        if (++spins < SPINS)
            lsi_cpu_relax();
        else
            sched_yield();
    }
}

static void do_pass(const share *s, const team *t, bool wrapped)
{
    const size_t rows = row_blocks(s->r), done = t->done + (wrapped ? 0 : rows);
    const bool is_first = s->worker == t->first;
    progress *const all = s->r->progress;
    progress *const left = all + s->worker + (is_first ? t->size : 0) - 1;
    for (size_t i = 0; i < rows; i += ROWS_AT_ONCE) {
        const size_t end = rows_end(i, rows);
        if (!is_first)
            wait_for(left, done + end);
        else if (!wrapped)
            wait_for(left, t->done + end);
        do_rows(s, i, end, wrapped);
        atomic_store_explicit(&all[s->worker].rows, done + end,
                              memory_order_release);
    }
}

/* In halves of a pair: those on a causal diagonal are shorter. */
static size_t column_work(const backward_run *r, size_t kv, size_t j)
{
    if (j * BLOCK >= lsi_attention_keys(r->a, kv / r->a->kv_heads))
        return 0;
    if (!r->a->causal)
        return 2 * row_blocks(r);
    return j < r->query_blocks ? r->a->group * (2 * (r->query_blocks - j) - 1)
                               : 0;
}

/* Where part `part` begins, if all have about the same work. */
static size_t first_column(const backward_run *r, size_t kv, int part,
                           int parts)
{
    size_t total = 0, before = 0, j = 0;
    for (size_t k = 0; k < r->key_blocks; k++)
        total += column_work(r, kv, k);
    if (part == parts)
        return r->key_blocks;
    for (; j < r->key_blocks; j++) {
        const size_t work = column_work(r, kv, j);
        if ((2 * before + work) * (size_t)parts >= 2 * total * (size_t)part)
            break;
        before += work;
    }
    return j;
}

static void do_share(const share *s, const team *t)
{
    const size_t rows = row_blocks(s->r);
    for (size_t j = s->begin; j < s->end; j++)
        start_block(s->r, s->kv, s->memory, rows + j);
    do_pass(s, t, true);
    do_pass(s, t, false);
    for (size_t j = s->begin; j < s->end; j++)
        finish_block(s->r, s->kv, s->memory, rows + j);
}

/* One team for all heads in turn if teams for each would differ in size. */
static size_t count_teams(const backward_run *r, size_t workers)
{
    const size_t n = r->divided;
    const bool uneven = workers % n != 0 && r->key_blocks >= 2 * workers;
    return n > workers || uneven ? 1 : n;
}

static void divided_heads(void *context, int worker, int workers)
{
    const backward_run *r = context;
    const size_t n = (size_t)workers, teams = count_teams(r, n);
    size_t mine = 0;
    lsi_range range = lsi_partition(n, teams, 0);
    while ((size_t)worker >= range.end)
        range = lsi_partition(n, teams, ++mine);
    team t = {.first = (int)range.begin, .size = (int)lsi_range_size(range)};
    for (size_t head = mine; head < r->divided; head += teams) {
        const size_t kv = r->first + head;
        const int part = worker - t.first;
        const share s = {.r = r,
                         .kv = kv,
                         .memory = r->heads + head * r->head_floats,
                         .begin = first_column(r, kv, part, t.size),
                         .end = first_column(r, kv, part + 1, t.size),
                         .worker = worker};
        do_share(&s, &t);
        t.done += 2 * row_blocks(r);
    }
}

static void start_task(void *context, size_t task, int worker)
{
    const backward_run *r = context;
    const size_t head = task / row_blocks(r);
    (void)worker;
    start_block(r, r->first + head, r->heads + head * r->head_floats,
                task % row_blocks(r));
}

static void finish_task(void *context, size_t task, int worker)
{
    const backward_run *r = context;
    const size_t head = task / row_blocks(r);
    (void)worker;
    finish_block(r, r->first + head, r->heads + head * r->head_floats,
                 task % row_blocks(r));
}

static void run_divided(backward_run *r)
{
    const size_t rows = r->divided * row_blocks(r);
    if (r->divided == 0)
        return;
    lsi_parallel_tasks(rows, start_task, r);
    lsi_parallel_team(divided_heads, r);
    lsi_parallel_tasks(rows, finish_task, r);
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

/* Memory of the threads, of the heads that are worked on, and of the pairs. */
static ls_status take_memory(backward_run *r, size_t heads, size_t workers,
                             void **memory)
{
    const size_t at_once = workers < heads ? workers : heads;
    const size_t heads_floats = at_once * r->head_floats;
    const size_t floats = heads_floats + workers * r->pair_floats;
    LS_TRY(lsi_alloc(memory,
                     workers * sizeof(progress) + floats * sizeof(float),
                     LS_MEMORY_WORKSPACE, "attention's backward"));
    r->progress = *memory;
    for (size_t w = 0; w < workers; w++)
        atomic_init(&r->progress[w].rows, 0);
    r->heads = (float *)(r->progress + workers);
    r->pairs = r->heads + heads_floats;
    return LS_OK;
}

ls_status lsi_flash_backward_all(const lsi_attention *a,
                                 lsi_attention_inputs in,
                                 lsi_attention_gradients g)
{
    backward_run r = plan(a, in, g);
    const size_t heads = a->batch * a->kv_heads;
    const size_t workers = (size_t)lsi_threads();
    void *memory;
    if (heads == 0)
        return LS_OK;
    LS_TRY(take_memory(&r, heads, workers, &memory));
    r.divided = heads % workers;
    r.first = heads - r.divided;
    lsi_parallel_tasks(r.first, head_task, &r);
    run_divided(&r);
    lsi_free(memory);
    return LS_OK;
}

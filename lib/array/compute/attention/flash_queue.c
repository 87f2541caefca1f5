/* The choice of a worker's next pair of blocks. */
#include "array/compute/attention/flash_queue.h"

#include <assert.h>
#include <sched.h>

#include "base/cpu.h"

enum { SPINS = 2000 };

size_t lsi_flash_queue_bytes(size_t heads, size_t rows, size_t columns)
{
    return heads *
           (sizeof(lsi_flash_order) + (rows + columns) * sizeof(atomic_size_t));
}

lsi_flash_queue lsi_flash_queue_make(void *memory, size_t heads, int workers,
                                     const lsi_flash_order *order)
{
    lsi_flash_queue b = {.orders = memory,
                         .heads = heads,
                         .rows = order->rows,
                         .columns = order->columns,
                         .workers = workers};
    b.row_done = (atomic_size_t *)(void *)(b.orders + heads);
    b.column_next = b.row_done + heads * b.rows;
    for (size_t h = 0; h < heads; h++)
        b.orders[h] = *order;
    return b;
}

void lsi_flash_queue_start(lsi_flash_queue *b)
{
    for (size_t n = 0; n < b->heads * b->rows; n++)
        atomic_init(&b->row_done[n], 0);
    for (size_t n = 0; n < b->heads * b->columns; n++) {
        const lsi_flash_order *o = &b->orders[n / b->columns];
        const size_t place = lsi_flash_next_place(o, n % b->columns, 0);
        atomic_init(&b->column_next[n], 2 * place);
    }
}

/*
 * Each worker has the same amount of work. Under a causal mask later columns
 * are shorter, so the first column is followed by the last, then by the second.
 */
static int owner_of(const lsi_flash_queue *b, size_t head, size_t j)
{
    assert(j < b->orders[head].seen);
    const lsi_flash_order *o = &b->orders[head];
    const bool triangle = o->causal && o->blocks < o->seen;
    const size_t n = triangle ? o->blocks : o->seen;
    size_t at = j;
    if (o->causal)
        at = 2 * j < n ? 2 * j : 2 * (n - 1 - j) + 1;
    assert(b->heads * n > 0);
    return (int)((head * n + at) * (size_t)b->workers / (b->heads * n));
}

/*
 * Within a head, wrapped pairs come first, and a larger row means a later step.
 * So a worker does all pairs of a row whose turn it is, one after another. The
 * row's block stays in the second-level cache while the keys pass by.
 */
static size_t priority_of(const lsi_flash_queue *b, size_t head, size_t i,
                          size_t j)
{
    const bool wraps = lsi_flash_wraps(&b->orders[head], i, j);
    return (2 * head + (wraps ? 0 : 1)) * b->rows + i;
}

typedef struct search {
    int worker;
    bool own; /* in its own columns, or in those of others */
    bool found, unfinished;
    lsi_flash_turn best;
} search;

/* Notes the next pair of column n, if it is its turn and none is better. */
static void examine_column(const lsi_flash_queue *b, size_t n, search *s)
{
    const size_t next =
        atomic_load_explicit(&b->column_next[n], memory_order_acquire);
    if (next == 2 * b->rows)
        return;
    s->unfinished = true;
    lsi_flash_turn t = {
        .head = n / b->columns, .column = n % b->columns, .place = next / 2};
    const lsi_flash_order *o = &b->orders[t.head];
    if ((owner_of(b, t.head, t.column) == s->worker) != s->own)
        return;
    t.row = lsi_flash_row_at(o, t.column, t.place);
    t.priority = priority_of(b, t.head, t.row, t.column);
    if (next % 2 == 1 || (s->found && t.priority >= s->best.priority))
        return;
    if (atomic_load_explicit(&b->row_done[t.head * b->rows + t.row],
                             memory_order_acquire) !=
        lsi_flash_place_in_row(o, t.row, t.column))
        return;
    s->best = t;
    s->found = true;
}

/* From the last column on: most often it, or the one after it, will do. */
static void find_turn(const lsi_flash_queue *b, const lsi_flash_turn *last,
                      search *s)
{
    const size_t all = b->heads * b->columns;
    size_t n = last->head * b->columns + last->column;
    for (size_t left = all; left > 0; left--) {
        examine_column(b, n, s);
        if (s->found && s->best.priority == last->priority)
            return;
        n = n + 1 < all ? n + 1 : 0;
    }
}

static bool claim_turn(lsi_flash_queue *b, const lsi_flash_turn *t)
{
    size_t expected = 2 * t->place;
    return atomic_compare_exchange_strong_explicit(
        &b->column_next[t->head * b->columns + t->column], &expected,
        expected + 1, memory_order_acquire, memory_order_relaxed);
}

bool lsi_flash_queue_claim(lsi_flash_queue *b, int worker, lsi_flash_turn *turn)
{
    for (int spins = 0;; spins++) {
        search s = {.worker = worker, .own = true};
        find_turn(b, turn, &s);
        s.own = false;
        if (!s.found)
            find_turn(b, turn, &s);
        if (s.found && claim_turn(b, &s.best)) {
            *turn = s.best;
            return true;
        }
        if (!s.unfinished)
            return false;
        if (spins < SPINS)
            lsi_cpu_relax();
        else
            sched_yield();
    }
}

void lsi_flash_queue_done(lsi_flash_queue *b, const lsi_flash_turn *turn)
{
    const lsi_flash_order *o = &b->orders[turn->head];
    const size_t place = lsi_flash_next_place(o, turn->column, turn->place + 1);
    atomic_fetch_add_explicit(&b->row_done[turn->head * b->rows + turn->row], 1,
                              memory_order_release);
    atomic_store_explicit(
        &b->column_next[turn->head * b->columns + turn->column], 2 * place,
        memory_order_release);
}

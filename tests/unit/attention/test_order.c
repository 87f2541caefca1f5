/*
 * The order of the sums in flash attention's backward, against its definition:
 * the pairs of a row, or of a column, by (row + column) modulo the number of
 * blocks. And the queue, whose workers keep it however many they are.
 */
#include <pthread.h>
#include <sched.h>

#include "array/compute/attention/flash_queue.h"
#include "testing.h"

enum { MOST = 16, MOST_WORKERS = 5 };

/* Whether row i sees column j. */
static bool sees(const lsi_flash_order *o, size_t i, size_t j)
{
    return j < o->seen && (!o->causal || j <= i % o->blocks);
}

static size_t step_of(const lsi_flash_order *o, size_t i, size_t j)
{
    return (i + j) % (o->rows > o->columns ? o->rows : o->columns);
}

/* The blocks of a row, or of a column, in order; returns how many. */
static size_t line(const lsi_flash_order *o, bool row, size_t at, size_t *out)
{
    const size_t others = row ? o->columns : o->rows;
    size_t n = 0;
    for (size_t step = 0; step < MOST; step++)
        for (size_t k = 0; k < others; k++) {
            const size_t i = row ? at : k, j = row ? k : at;
            if (sees(o, i, j) && step_of(o, i, j) == step)
                out[n++] = k;
        }
    return n;
}

static void check_order(const lsi_flash_order *o)
{
    size_t want[MOST];
    for (size_t i = 0; i < o->rows; i++) {
        const size_t n = line(o, true, i, want);
        assert_int_equal(lsi_flash_row_length(o, i), n);
        for (size_t place = 0; place < n; place++)
            assert_int_equal(lsi_flash_place_in_row(o, i, want[place]), place);
    }
    for (size_t j = 0; j < o->columns; j++) {
        const size_t n = line(o, false, j, want);
        size_t place = lsi_flash_next_place(o, j, 0);
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(lsi_flash_row_at(o, j, place), want[k]);
            place = lsi_flash_next_place(o, j, place + 1);
        }
        assert_int_equal(place, o->rows);
    }
}

/* Sums as the workers would add to them: who was added, in which order. */
typedef struct sums {
    lsi_flash_queue queue;
    pthread_barrier_t begin;
    size_t row[MOST][MOST], column[MOST][MOST];
    size_t row_terms[MOST], column_terms[MOST];
} sums;

typedef struct worker {
    sums *sums;
    int index;
    pthread_t thread;
} worker;

static void *add_pairs(void *context)
{
    const worker *w = context;
    sums *s = w->sums;
    lsi_flash_turn t = {.head = 0};
    pthread_barrier_wait(&s->begin);
    while (lsi_flash_queue_claim(&s->queue, w->index, &t)) {
        const size_t i = t.head * s->queue.rows + t.row;
        const size_t j = t.head * s->queue.columns + t.column;
        s->row[i][s->row_terms[i]++] = t.column;
        s->column[j][s->column_terms[j]++] = t.row;
        lsi_flash_queue_done(&s->queue, &t);
        sched_yield(); /* so that others have a turn */
    }
    return NULL;
}

/* Uses pthreads, as the thread sanitizer does not know OpenMP's threads. */
static void add_all(sums *s, int workers)
{
    worker all[MOST_WORKERS];
    pthread_barrier_init(&s->begin, NULL, (unsigned)workers);
    for (int w = 0; w < workers; w++) {
        all[w] = (worker){.sums = s, .index = w};
        assert_int_equal(
            pthread_create(&all[w].thread, NULL, add_pairs, &all[w]), 0);
    }
    for (int w = 0; w < workers; w++)
        assert_int_equal(pthread_join(all[w].thread, NULL), 0);
    pthread_barrier_destroy(&s->begin);
}

static void check_queue(const lsi_flash_order *o, size_t heads, int workers)
{
    size_t memory[128], want[MOST];
    sums s = {.row_terms = {0}};
    assert_true(lsi_flash_queue_bytes(heads, o->rows, o->columns) <=
                sizeof(memory));
    s.queue = lsi_flash_queue_make(memory, heads, workers, o);
    lsi_flash_queue_start(&s.queue);
    add_all(&s, workers);
    for (size_t i = 0; i < heads * o->rows; i++) {
        assert_int_equal(s.row_terms[i], line(o, true, i % o->rows, want));
        assert_memory_equal(s.row[i], want, s.row_terms[i] * sizeof(*want));
    }
    for (size_t j = 0; j < heads * o->columns; j++) {
        const size_t n = line(o, false, j % o->columns, want);
        assert_int_equal(s.column_terms[j], n);
        assert_memory_equal(s.column[j], want, n * sizeof(*want));
    }
}

static void for_each_order(void (*check)(const lsi_flash_order *o))
{
    for (int n = 0; n < 2 * 3 * 4 * 6 * 7; n++) {
        const size_t group = (size_t)(n / 2 % 3 + 1);
        lsi_flash_order o = {.causal = n % 2 == 1,
                             .blocks = (size_t)(n / 6 % 4 + 1),
                             .columns = (size_t)(n / 24 % 6 + 1),
                             .seen = (size_t)(n / 144)};
        o.rows = group * o.blocks;
        if (o.seen <= o.columns)
            check(&o);
    }
}

static void places_follow_steps(void **state)
{
    (void)state;
    for_each_order(check_order);
}

static void check_queues(const lsi_flash_order *o)
{
    const int workers =
        (int)(o->rows + o->columns + o->seen) % MOST_WORKERS + 1;
    check_queue(o, 1, workers);
    if (2 * o->rows <= MOST)
        check_queue(o, 2, workers);
}

static void workers_keep_the_order(void **state)
{
    (void)state;
    for_each_order(check_queues);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_follow_steps),
        cmocka_unit_test(workers_keep_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The owners of memory, from the recording to the file: bytes to
 * the last one, layers, operations, peaks.
 */
#include "testing.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "chunks.h"
#include "lockstep/lockstep.h"
#include "observe/lock.h"
#include "observe/memory_record.h"
#include "report/memory_file.h"

static char folder[64];
static char path[96];

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lockstep-memory-XXXXXX");
    ls_memory_set_budget(0);
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/a.lsmem", folder);
    return 0;
}

static int end(void **state)
{
    char other[128];
    static const char *const names[] = {"a.lsmem", "b.lsmem", "c.lsmem"};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        snprintf(other, sizeof other, "%s/%s", folder, names[i]);
        (void)remove(other);
    }
    return rmdir(folder);
}

static lsi_memory_file *read_file(const char *from)
{
    lsi_memory_file *file = NULL;
    assert_ok(lsi_memory_read(from, &file));
    return file;
}

/* Of blocks of that operation: how many, all their bytes, and where. */
typedef struct sum_over {
    size_t n;
    uint64_t bytes;
    char where[128], phase[32];
} sum_over;

static sum_over sum_of(const lsi_memory_file *f, const char *operation)
{
    sum_over s = {0};
    for (size_t i = 0; i < f->n_blocks; i++) {
        const lsi_memory_block *const b = &f->blocks[i];
        if (strcmp(lsi_memory_text(f, b->operation), operation) != 0)
            continue;
        s.n++;
        s.bytes += b->bytes;
        lsi_memory_path_text(f, b->path, s.where, sizeof s.where);
        snprintf(s.phase, sizeof s.phase, "%s", lsi_memory_text(f, b->phase));
    }
    return s;
}

/* ---- blocks -------------------------------------------------------------- */

static void blocks_are_counted_to_the_byte(void **state)
{
    (void)state;
    void *before, *a, *b;
    ls_memory_stats base;
    ls_memory_of(LS_MEMORY_DATA, &base);
    const int64_t first = (int64_t)base.live_bytes;
    assert_ok(lsi_alloc(&before, 50, LS_MEMORY_DATA, "before"));
    assert_ok(ls_memory_record_start(path));
    ls_range_push("outer");
    assert_ok(lsi_alloc(&a, 1000, LS_MEMORY_DATA, "first"));
    ls_range_push("inner");
    assert_ok(lsi_alloc(&b, 300, LS_MEMORY_STATE, "second"));
    ls_range_pop();
    lsi_free(a);
    ls_range_pop();
    assert_ok(lsi_memory_charge(700, LS_MEMORY_COMM, "mapped"));
    lsi_free(before);
    lsi_memory_discharge(700, LS_MEMORY_COMM);
    lsi_free(b);
    assert_ok(ls_memory_record_stop());

    lsi_memory_file *f = read_file(path);
    assert_true(f->process->whole);
    assert_int_equal(f->n_blocks, 2);
    assert_int_equal(f->blocks[0].bytes, 1000);
    assert_int_equal(f->blocks[0].kind, LS_MEMORY_DATA);
    assert_true(f->blocks[0].given >= f->blocks[0].taken);
    assert_string_equal(lsi_memory_text(f, f->blocks[1].what), "second");
    char where[64];
    lsi_memory_path_text(f, f->blocks[0].path, where, sizeof where);
    assert_string_equal(where, "outer");
    lsi_memory_path_text(f, f->blocks[1].path, where, sizeof where);
    assert_string_equal(where, "outer/inner");
    assert_int_equal(f->peak_of[LS_MEMORY_DATA], first + 50 + 1000);
    assert_int_equal(f->peak_of[LS_MEMORY_STATE], 300);
    assert_int_equal(f->peak_of[LS_MEMORY_COMM], 700);
    assert_int_equal(f->at_peak[LS_MEMORY_DATA], first + 1050);
    assert_int_equal(f->at_peak[LS_MEMORY_STATE], 300);
    assert_int_equal(f->at_peak[LS_MEMORY_COMM], 0);
    assert_true(f->trails[f->blocks[0].stack - 1].call);
    assert_true(f->trails[f->blocks[0].stack - 1].parent > 0);
    assert_true(f->maps_bytes > 0);
    lsi_memory_file_free(&f);
}

static void states_are_checked(void **state)
{
    (void)state;
    assert_false(ls_range_is_recorded());
    assert_error(ls_memory_record_stop(), LS_ERR_STATE, "not being recorded");
    assert_error(ls_memory_snapshot(path), LS_ERR_STATE, "not being recorded");
    assert_error(ls_memory_snapshot_above(1, path), LS_ERR_STATE,
                 "not being recorded");
    assert_error(ls_memory_record_start("/dev/null/x/y"), LS_ERR_IO,
                 "cannot record memory in '/dev/null/x");
    assert_ok(ls_memory_record_start(""));
    assert_true(ls_range_is_recorded());
    assert_error(ls_memory_record_start(path), LS_ERR_STATE, "already");
    assert_error(ls_memory_snapshot("/dev/null/x"), LS_ERR_IO, "/dev/null/x");
    assert_ok(ls_memory_record_stop());
    assert_false(ls_range_is_recorded());
}

/* ---- a tape -------------------------------------------------------------- */

enum { ROWS = 8, IN = 16, OUT = 32 };

typedef struct model {
    ls_params *params;
    ls_tensor *w, *x;
    ls_tape *tape;
} model;

static void make_model(model *m)
{
    const ls_init init = {LS_INIT_UNIFORM, -1, 1};
    const int64_t w[] = {OUT, IN}, x[] = {ROWS, IN};
    assert_ok(ls_params_new(&m->params));
    assert_ok(ls_params_add(m->params, "w", 2, w, init, &m->w));
    assert_ok(ls_params_allocate(m->params, NULL, 1));
    assert_ok(ls_tensor_new(&m->x, LS_F32, 2, x));
    assert_ok(ls_tensor_fill(m->x, 0.5));
    assert_ok(ls_tape_new(&m->tape));
}

static void free_model(model *m)
{
    ls_tape_free(&m->tape);
    ls_tensor_free(&m->x);
    ls_params_free(&m->params);
}

static void run_step(model *m)
{
    ls_range_push("layer 0");
    ls_tensor *h = ls_linear(m->tape, m->x, m->w, NULL);
    ls_range_push("activation");
    h = ls_gelu(m->tape, h);
    ls_range_pop();
    ls_range_pop();
    ls_range_push("loss");
    ls_tensor *loss = ls_mean(m->tape, h);
    ls_range_pop();
    assert_ok(ls_tape_status(m->tape));
    assert_ok(ls_backward(m->tape, loss, 1.0));
    ls_tape_reset(m->tape);
}

static void operations_and_layers_are_told(void **state)
{
    (void)state;
    const uint64_t rows = ROWS * OUT * sizeof(float);
    model m;
    make_model(&m);
    run_step(&m); /* the pool has what it needs, and gives it out again */
    assert_ok(ls_memory_record_start(path));
    run_step(&m);
    assert_ok(ls_memory_record_stop());
    free_model(&m);

    lsi_memory_file *f = read_file(path);
    const sum_over product = sum_of(f, "linear"), gelu = sum_of(f, "gelu");
    const sum_over mean = sum_of(f, "mean");
    const sum_over back = sum_of(f, "gelu backward");
    const sum_over mean_back = sum_of(f, "mean backward");
    assert_int_equal(product.n, 1);
    assert_int_equal(product.bytes, rows);
    assert_string_equal(product.where, "layer 0");
    assert_int_equal(gelu.bytes, rows);
    assert_string_equal(gelu.where, "layer 0/activation");
    assert_string_equal(gelu.phase, "");
    assert_int_equal(mean.bytes, sizeof(float));
    assert_string_equal(mean.where, "loss");
    /* The gradient of the product's result, and that of gelu's. */
    assert_int_equal(back.bytes, rows);
    assert_string_equal(back.where, "layer 0/activation");
    assert_string_equal(back.phase, "backward");
    assert_int_equal(mean_back.bytes, rows);
    assert_string_equal(mean_back.where, "loss");
    /* Everything is given back, and the pool has it all. */
    for (size_t i = 0; i < f->n_blocks; i++)
        assert_true(f->blocks[i].given != INT64_MAX || !f->blocks[i].kept);
    assert_true(f->at_live_peak[LS_MEMORY_ACTIVATIONS] >= (int64_t)(3 * rows));
    assert_true(f->at_live_peak[LS_MEMORY_ACTIVATIONS] <=
                (int64_t)(4 * rows + 64));
    lsi_memory_file_free(&f);
}

/* The lines add up to the counters, at the peak, too. */
static int64_t peak_of_step(model *m)
{
    lsi_memory_reset_in_use();
    const int64_t before = lsi_memory_in_use().now;
    assert_int_equal(lsi_memory_in_use().peak, before);
    run_step(m);
    assert_int_equal(lsi_memory_in_use().now, before);
    return lsi_memory_in_use().peak - before;
}

static void what_is_in_use_has_a_peak(void **state)
{
    (void)state;
    void *a, *b;
    assert_int_equal(lsi_memory_in_use().now, 0);
    assert_int_equal(lsi_memory_in_use().peak, 0);
    model m;
    make_model(&m);
    run_step(&m);
    assert_ok(ls_memory_record_start(""));
    const int64_t before = lsi_memory_in_use().now;
    assert_int_equal(lsi_memory_in_use().peak, before);
    assert_ok(lsi_alloc(&a, 1000, LS_MEMORY_DATA, "first"));
    lsi_free(a);
    assert_ok(lsi_alloc(&b, 300, LS_MEMORY_DATA, "second"));
    assert_ok(lsi_memory_charge(50, LS_MEMORY_COMM, "mapped"));
    assert_int_equal(lsi_memory_in_use().now, before + 350);
    assert_int_equal(lsi_memory_in_use().peak, before + 1000);
    lsi_memory_reset_in_use();
    assert_int_equal(lsi_memory_in_use().peak, before + 350);
    lsi_memory_discharge(50, LS_MEMORY_COMM);
    lsi_free(b);
    /* No step includes the memory that the tape keeps between steps. */
    const int64_t step = peak_of_step(&m);
    assert_true(step >= (int64_t)(3 * ROWS * OUT * sizeof(float)));
    assert_int_equal(peak_of_step(&m), step);
    assert_ok(ls_memory_record_stop());
    assert_int_equal(lsi_memory_in_use().peak, 0);
    free_model(&m);
}

static void sums_are_those_of_the_counters(void **state)
{
    (void)state;
    ls_memory_stats total;
    model m;
    ls_memory_reset_peak();
    ls_memory_total(&total);
    assert_ok(ls_memory_record_start(path));
    make_model(&m);
    for (int i = 0; i < 3; i++)
        run_step(&m);
    ls_memory_total(&total);
    assert_ok(ls_memory_record_stop());
    free_model(&m);
    lsi_memory_file *f = read_file(path);
    int64_t last[LSI_MEMORY_SERIES] = {0}, sum = 0;
    for (size_t i = 0; i < f->n_changes; i++)
        last[f->changes[i].kind] = f->changes[i].bytes;
    for (int k = 0; k < LSI_MEMORY_SERIES; k++)
        sum += last[k];
    assert_int_equal(sum, total.live_bytes);
    assert_int_equal(f->peak, total.peak_bytes);
    lsi_memory_file_free(&f);
}

/* ---- snapshots and budgets ----------------------------------------------- */

static void a_refusal_names_the_holders(void **state)
{
    (void)state;
    char snapshot[96];
    void *a, *b, *none;
    ls_memory_stats total;
    snprintf(snapshot, sizeof snapshot, "%s/b.lsmem", folder);
    assert_ok(ls_memory_record_start(""));
    assert_ok(ls_memory_snapshot_above(0, snapshot));
    ls_range_push("block 0");
    assert_ok(lsi_alloc(&a, 4000, LS_MEMORY_ACTIVATIONS, "a"));
    ls_range_pop();
    ls_range_push("block 1");
    assert_ok(lsi_alloc(&b, 9000, LS_MEMORY_GRADIENTS, "b"));
    ls_range_pop();
    ls_memory_total(&total);
    ls_memory_set_budget(total.live_bytes + 10);
    assert_int_equal(lsi_alloc(&none, 11, LS_MEMORY_DATA, "a batch"),
                     LS_ERR_BUDGET);
    ls_memory_set_budget(0);
    assert_non_null(strstr(ls_last_error(), "a batch: 11 bytes (data)"));
    assert_non_null(strstr(ls_last_error(), "gradients 9000"));
    assert_non_null(strstr(ls_last_error(), ". In use by part: block 1 (9000 "
                                            "bytes), block 0 (4000 bytes)"));
    assert_ok(ls_memory_record_stop());
    lsi_free(a);
    lsi_free(b);
    lsi_memory_file *f = read_file(snapshot);
    assert_int_equal(f->n_blocks, 2);
    assert_int_equal(f->peak, total.live_bytes);
    lsi_memory_file_free(&f);
}

static void a_snapshot_when_so_much_is_live(void **state)
{
    (void)state;
    char snapshot[96];
    void *a, *b, *c;
    ls_memory_stats total;
    snprintf(snapshot, sizeof snapshot, "%s/c.lsmem", folder);
    assert_ok(ls_memory_record_start(""));
    ls_memory_total(&total);
    assert_ok(ls_memory_snapshot_above(total.live_bytes + 5000, snapshot));
    assert_ok(lsi_alloc(&a, 5000, LS_MEMORY_DATA, "a"));
    assert_int_equal(access(snapshot, F_OK), -1);
    assert_ok(lsi_alloc(&b, 1, LS_MEMORY_DATA, "b"));
    assert_int_equal(access(snapshot, F_OK), 0);
    assert_ok(lsi_alloc(&c, 1, LS_MEMORY_DATA, "c")); /* only once */
    assert_ok(ls_memory_record_stop());
    lsi_free(a);
    lsi_free(b);
    lsi_free(c);
    lsi_memory_file *f = read_file(snapshot);
    assert_int_equal(f->n_blocks, 2);
    assert_int_equal(f->peak, total.live_bytes + 5001);
    lsi_memory_file_free(&f);
}

static void a_child_records_nothing(void **state)
{
    (void)state;
    void *block;
    assert_ok(ls_memory_record_start(path));
    assert_ok(lsi_alloc(&block, 10, LS_MEMORY_DATA, "parent's"));
    const pid_t child = fork();
    if (child == 0) {
        void *more = NULL;
        const bool off = !ls_range_is_recorded() &&
                         lsi_alloc(&more, 20, LS_MEMORY_DATA, "x") == LS_OK;
        lsi_free(more);
        lsi_free(block);
        _exit(off ? 0 : 1);
    }
    int how = -1;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    lsi_free(block);
    assert_ok(ls_memory_record_stop());
    lsi_memory_file *f = read_file(path);
    assert_true(f->process->whole);
    assert_int_equal(f->n_blocks, 1);
    lsi_memory_file_free(&f);
}

enum { THREADS = 4, BLOCKS = 2000 };

static void *churn(void *unused)
{
    (void)unused;
    for (int i = 0; i < BLOCKS; i++) {
        void *block;
        ls_range_push(i % 2 == 0 ? "even" : "odd");
        if (lsi_alloc(&block, 64, LS_MEMORY_WORKSPACE, "x") != LS_OK)
            return NULL;
        ls_range_pop();
        lsi_free(block);
    }
    return NULL;
}

static void threads_record_at_once(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    ls_memory_stats before;
    ls_memory_of(LS_MEMORY_WORKSPACE, &before);
    assert_ok(ls_memory_record_start(path));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_ok(ls_memory_record_stop());
    lsi_memory_file *f = read_file(path);
    assert_int_equal(f->n_blocks, THREADS * BLOCKS);
    for (size_t i = 0; i < f->n_blocks; i++)
        assert_true(f->blocks[i].given != INT64_MAX);
    assert_true(f->peak_of[LS_MEMORY_WORKSPACE] <=
                (int64_t)before.live_bytes + THREADS * 64);
    lsi_memory_file_free(&f);
}

/* ---- allocations inside -------------------------------------------------- */

/* The recorder's memory is not part of a recording, and needs no lock. */
static void the_recorder_may_allocate(void **state)
{
    void *block;
    (void)state;
    assert_ok(ls_memory_record_start(path));
    lsi_observe_lock();
    const ls_status status = lsi_alloc(&block, 10, LS_MEMORY_DATA, "inside");
    if (status == LS_OK)
        lsi_free(block);
    lsi_observe_unlock();
    assert_ok(status);
    assert_ok(ls_memory_record_stop());
    lsi_memory_file *f = read_file(path);
    assert_int_equal(f->n_blocks, 0);
    lsi_memory_file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_counted_to_the_byte),
        cmocka_unit_test(states_are_checked),
        cmocka_unit_test(operations_and_layers_are_told),
        cmocka_unit_test(what_is_in_use_has_a_peak),
        cmocka_unit_test(sums_are_those_of_the_counters),
        cmocka_unit_test(a_refusal_names_the_holders),
        cmocka_unit_test(a_snapshot_when_so_much_is_live),
        cmocka_unit_test(a_child_records_nothing),
        cmocka_unit_test(threads_record_at_once),
        cmocka_unit_test(the_recorder_may_allocate),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

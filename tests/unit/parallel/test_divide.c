/*
 * Parameters that are divided among ranks (strategy fsdp): how they are
 * borrowed and written, and what memory a rank really holds. That the weights
 * come out right is test_strategies.c's.
 */
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "base/threads.h"
#include "lockstep/optim.h"
#include "lockstep/parallel.h"
#include "lockstep/profile.h"
#include "unit/comm/ranks.h"

static ls_ddp *divide(ls_group *group, ls_params *params, double bucket_mb)
{
    ls_ddp *ddp = NULL;
    ls_ddp_options options = ls_ddp_options_default();
    options.strategy = "fsdp";
    options.bucket_mb = bucket_mb;
    CHECK_OK(ls_ddp_new(&ddp, group, params, &options));
    return ddp;
}

/* ---- borrowing ----------------------------------------------------------- */

enum { LENGTHS = 5 };
static const int64_t lengths[LENGTHS] = {3000, 1, 17, 2048, 999};

static float number(int tensor, int64_t i)
{
    return (float)(tensor * 10000 + i);
}

static void check_numbers(const ls_params *params)
{
    for (int t = 0; t < LENGTHS; t++) {
        const float *const x = ls_tensor_data(ls_params_get(params, (size_t)t));
        for (int64_t i = 0; i < lengths[t]; i++)
            CHECK(x[i] == number(t, i));
    }
}

/* Something that uses a parameter, and so ends all loans. */
static double sum_of(ls_params *params, int tensor)
{
    ls_tape *tape = NULL;
    CHECK_OK(ls_tape_new(&tape));
    ls_tensor *const sum = ls_sum(tape, ls_params_get(params, (size_t)tensor));
    CHECK(sum != NULL);
    const double value = (double)*(const float *)ls_tensor_data(sum);
    ls_tape_free(&tape);
    return value;
}

static void play_borrowing(ls_group *group, void *unused)
{
    (void)unused;
    ls_params *params = NULL;
    size_t count;
    CHECK_OK(ls_params_new(&params));
    for (int t = 0; t < LENGTHS; t++) {
        char name[16];
        snprintf(name, sizeof(name), "p%d", t);
        CHECK_OK(ls_params_add(params, name, 1, &lengths[t],
                               (ls_init){LS_INIT_NORMAL, 0, 1}, NULL));
    }
    CHECK_OK(ls_params_allocate(params, group, (uint64_t)ls_group_rank(group)));
    ls_ddp *ddp = divide(group, params, 0.004);
    CHECK(ls_params_flat(params, &count) == NULL && count >= 6065);
    /* Rank 0's numbers, wherever they lie now. */
    double own = sum_of(params, 0), first = own;
    CHECK_OK(ls_broadcast(group, &first, 1, LS_F64, 0));
    CHECK(own == first && own != 0);
    for (int t = 0; t < LENGTHS; t++) {
        float *const x = ls_tensor_data(ls_params_get(params, (size_t)t));
        for (int64_t i = 0; i < lengths[t]; i++)
            x[i] = number(t, i);
    }
    /* Nobody may still gather what the others keep of this. */
    CHECK_OK(ls_barrier(group));
    ls_params_changed(params);
    CHECK_OK(ls_barrier(group));
    check_numbers(params);
    CHECK(sum_of(params, 2) == 17 * 20000 + 136);
    check_numbers(params);
    ls_ddp_free(&ddp);
    check_numbers(params);
    ddp = divide(group, params, 0.004);
    check_numbers(params);
    ls_ddp_free(&ddp);
    ls_ddp_options flat = ls_ddp_options_default();
    CHECK(ls_ddp_new(&ddp, group, params, &flat) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "divided") != NULL);
    ls_params_free(&params);
}

static void test_borrowing(void **state)
{
    (void)state;
    for (int size = 1; size <= 5; size += size < 3 ? 1 : 2)
        run_threads(size, play_borrowing, NULL);
    run_processes(2, play_borrowing, NULL);
}

/* ---- memory -------------------------------------------------------------- */

enum { RANKS = 2, TENSORS = 16, FLOATS = 1 << 18 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool sanitized = true;
#else
static const bool sanitized = false;
#endif

/* Bytes of a tensor, and of all. */
static const double UNIT = FLOATS * sizeof(float);
static const double ALL = TENSORS * FLOATS * sizeof(float);

/* This process's proportional share of all memory. */
static double proportional_bytes(void)
{
    FILE *const file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    double kilobytes = 0;
    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL)
        (void)sscanf(line, "Pss: %lf kB", &kilobytes);
    fclose(file);
    return kilobytes * 1024;
}

static ls_status look(void *peak, size_t index)
{
    (void)index;
    const double now = proportional_bytes();
    if (now > *(double *)peak)
        *(double *)peak = now;
    return LS_OK;
}

static ls_tensor *loss_of(ls_params *params, ls_tape *tape)
{
    ls_tensor *loss = NULL;
    for (size_t t = 0; t < TENSORS; t++) {
        ls_tensor *const sum = ls_sum(tape, ls_params_get(params, t));
        loss = loss == NULL ? sum : ls_add(tape, loss, sum);
    }
    return loss;
}

static void step(ls_params *params, ls_ddp *ddp, ls_optimizer *sgd)
{
    ls_tape *tape = NULL;
    CHECK_OK(ls_tape_new(&tape));
    ls_params_zero_grad(params);
    CHECK_OK(ls_ddp_backward(ddp, tape, loss_of(params, tape), 1, true));
    CHECK_OK(ls_optimizer_step(sgd, 1));
    ls_tape_free(&tape);
}

static double bytes_of(ls_memory_tag tag)
{
    ls_memory_stats stats;
    ls_memory_of(tag, &stats);
    return (double)stats.peak_bytes;
}

static bool between(double x, double low, double high)
{
    return x >= low * 0.95 && x <= high * 1.05;
}

static void play_memory(ls_group *group, void *unused)
{
    (void)unused;
    ls_params *params = NULL;
    ls_optimizer *sgd = NULL;
    const int64_t shape = FLOATS;
    lsi_threads_set(1);
    CHECK_OK(ls_barrier(group));
    const double before = proportional_bytes();
    CHECK_OK(ls_params_new(&params));
    for (int t = 0; t < TENSORS; t++) {
        char name[16];
        snprintf(name, sizeof(name), "p%d", t);
        CHECK_OK(ls_params_add(params, name, 1, &shape,
                               (ls_init){LS_INIT_CONSTANT, 1, 0}, NULL));
    }
    CHECK_OK(ls_params_allocate(params, group, 1));
    ls_ddp *ddp = divide(group, params, 1e-6 * UNIT);
    CHECK_OK(ls_sgd_new(&sgd, params, (ls_sgd_options){0.5, 0.5, 0}));
    ls_memory_reset_peak();
    double most = 0;
    ls_params_on_grad_ready(params, look, &most);
    step(params, ddp, sgd);
    step(params, ddp, sgd);
    look(&most, 0);
    const double part = ALL / RANKS;
    CHECK(between(bytes_of(LS_MEMORY_STATE), part, part));
    CHECK(between(bytes_of(LS_MEMORY_PARAMETERS), part + UNIT, part + UNIT));
    CHECK(between(bytes_of(LS_MEMORY_GRADIENTS), part, part + 2 * UNIT));
    ls_optimizer_free(&sgd);
    ls_ddp_free(&ddp);
    ls_params_free(&params);
    CHECK_OK(ls_barrier(group));
    /* Memory has shadows if it is sanitized. Huge pages are 2 MiB. */
    const double huge = 2 << 20;
    CHECK(sanitized || most - before <= 3 * part + 2 * UNIT + 2 * huge);
    ls_memory_stats stats;
    ls_memory_of(LS_MEMORY_PARAMETERS, &stats);
    CHECK(stats.live_bytes == 0);
    ls_memory_of(LS_MEMORY_GRADIENTS, &stats);
    CHECK(stats.live_bytes == 0);
}

static void test_memory(void **state)
{
    (void)state;
    run_processes(RANKS, play_memory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory), /* processes first: it forks */
        cmocka_unit_test(test_borrowing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Trains a little and prints how many threads the library has computed with,
 * and how many a loop of the program's own gets:
 *
 *     thread_count [THREADS]    for omp_set_num_threads before the group opens
 *     rank 0: 1 of the library, 2 of the program
 *
 * TEST_CPUS says how many CPUs the kernel allows this process, so that the
 * numbers are those of a machine that has them: "0-7".
 */
#include <dirent.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lockstep/lockstep.h"

enum { ROWS = 256, COLUMNS = 256, CLASSES = 64, STEPS = 3 };

/* In place of the C library's: as the kernel, if it allowed those of the text.
 */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    int first = 0, last = 0;
    (void)pid;
    const char *const text = getenv("TEST_CPUS");
    if (text == NULL || sscanf(text, "%d-%d", &first, &last) != 2)
        return -1;
    memset(set, 0, bytes);
    for (int cpu = first; cpu <= last; cpu++)
        CPU_SET_S((size_t)cpu, bytes, set);
    return 0;
}

static void check(ls_status status)
{
    if (status == LS_OK)
        return;
    fprintf(stderr, "thread_count: %s\n", ls_last_error());
    exit(1);
}

static int look(void)
{
    int n = 0;
    DIR *const folder = opendir("/proc/self/task");
    if (folder == NULL)
        exit(1);
    for (const struct dirent *e; (e = readdir(folder)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(folder);
    return n;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One that has been joined is in /proc for a moment more. */
static int threads_now(void)
{
    const double end = seconds() + 0.03;
    int least = look();
    while (seconds() < end) {
        sched_yield();
        const int now = look();
        least = now < least ? now : least;
    }
    return least;
}

/* The most threads that there were in addition to those of before. */
static int most;

static ls_tensor *counted(ls_tensor *made, int step)
{
    if (made == NULL)
        fprintf(stderr, "thread_count: %s\n", ls_last_error());
    /* In the first step the library tries whether it can start threads. */
    const int now = step == STEPS - 1 ? threads_now() : 0;
    most = now > most ? now : most;
    return made;
}

static void train(ls_group *group)
{
    const int64_t shape[] = {ROWS, COLUMNS};
    ls_linear_layer first, last;
    ls_params *params;
    ls_tape *tape;
    ls_tensor *x, *y;
    ls_ddp *ddp;
    ls_optimizer *sgd;
    check(ls_params_new(&params));
    check(ls_linear_layer_init(&first, params, "first", COLUMNS, COLUMNS,
                               LS_LAYER_DEFAULT));
    check(ls_linear_layer_init(&last, params, "last", COLUMNS, CLASSES,
                               LS_LAYER_DEFAULT));
    check(ls_params_allocate(params, group, 1));
    check(ls_ddp_new(&ddp, group, params, NULL));
    check(ls_optimizer_new(
        &sgd, params,
        &(ls_optimizer_spec){.sgd = &(ls_sgd_options){.lr = 0.05}}));
    check(ls_tape_new(&tape));
    check(ls_tensor_zeros(&x, LS_F32, 2, shape));
    check(ls_tensor_zeros(&y, LS_I64, 1, shape));
    for (int step = 0; step < STEPS; step++) {
        ls_params_zero_grad(params);
        ls_tensor *h = counted(ls_linear_layer_forward(&first, tape, x), step);
        h = counted(ls_relu(tape, h), step);
        h = counted(ls_linear_layer_forward(&last, tape, h), step);
        ls_tensor *loss = ls_cross_entropy(tape, h, y, NULL);
        check(ls_ddp_backward(ddp, tape, loss, ROWS));
        (void)counted(loss, step);
        check(ls_optimizer_step(sgd, 1.0));
        ls_tape_reset(tape);
    }
    ls_tensor_free(&y);
    ls_tensor_free(&x);
    ls_tape_free(&tape);
    ls_optimizer_free(&sgd);
    ls_ddp_free(&ddp);
    ls_params_free(&params);
}

int main(int argc, char **argv)
{
    ls_group *group = NULL;
    int own = 0;
    if (argc > 1)
        omp_set_num_threads((int)strtol(argv[1], NULL, 10));
    check(ls_group_from_env(&group));
    const int before = threads_now();
    const int rank = ls_group_rank(group);
    train(group);
    ls_group_close(&group);
#pragma omp parallel reduction(+ : own)
    own++;
    printf("rank %d: %d of the library, %d of the program\n", rank,
           most - before + 1, own);
    return 0;
}

/*
 * Trains a little on several ranks, one of which is slow in backward: for tests
 * that must find out which and where.
 *
 *     slow_rank STEPS RANK MILLISECONDS
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lockstep/lockstep.h"

enum { ROWS = 16, COLUMNS = 32, CLASSES = 4 };

static long milliseconds;

static void check(ls_status status)
{
    if (status == LS_OK)
        return;
    fprintf(stderr, "slow_rank: %s\n", ls_last_error());
    exit(1);
}

/* The gradient is that of the output; it takes its time. */
static ls_status stumble_backward(ls_tape *tape, ls_node *node)
{
    const struct timespec pause = {milliseconds / 1000,
                                   milliseconds % 1000 * 1000000};
    ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    bool accumulate = false;
    ls_tensor *dx = ls_node_grad_input(tape, node, 0, &accumulate);
    if (dx == NULL)
        return ls_tape_status(tape);
    float *from, *to;
    ls_status status = ls_tensor_map_f32(dy, &from);
    if (status == LS_OK)
        status = ls_tensor_map_f32(dx, &to);
    for (int64_t i = 0; status == LS_OK && i < ls_tensor_count(dx); i++)
        to[i] = from[i] + (accumulate ? to[i] : 0);
    ls_range_push("stumble");
    if (milliseconds > 0)
        nanosleep(&pause, NULL);
    ls_range_pop();
    return status;
}

static const ls_function stumble_function = {.name = "stumble",
                                             .backward = stumble_backward};

static ls_tensor *stumble(ls_tape *tape, ls_tensor *x)
{
    float *from, *to;
    if (x == NULL)
        return NULL;
    ls_tensor *y =
        ls_tape_output(tape, LS_F32, ls_tensor_ndim(x), ls_tensor_shape(x));
    if (y == NULL || ls_tensor_map_f32(x, &from) != LS_OK ||
        ls_tensor_map_f32(y, &to) != LS_OK)
        return NULL;
    for (int64_t i = 0; i < ls_tensor_count(x); i++)
        to[i] = from[i];
    return ls_tape_record(tape, &stumble_function, NULL, &x, 1, &y, 1, NULL, 0);
}

typedef struct run {
    ls_group *group;
    ls_params *params;
    ls_linear_layer first, last;
    ls_ddp *ddp;
    ls_optimizer *sgd;
    ls_tape *tape;
    ls_tensor *x, *y;
} run;

static void begin(run *r)
{
    const int64_t shape[] = {ROWS, COLUMNS};
    const ls_sgd_options options = {.lr = 0.05};
    check(ls_group_from_env(&r->group));
    check(ls_params_new(&r->params));
    check(ls_linear_layer_init(&r->first, r->params, "first", COLUMNS, COLUMNS,
                               LS_LAYER_DEFAULT));
    check(ls_linear_layer_init(&r->last, r->params, "last", COLUMNS, CLASSES,
                               LS_LAYER_DEFAULT));
    check(ls_params_allocate(r->params, r->group, 1));
    check(ls_ddp_new(&r->ddp, r->group, r->params, NULL));
    check(ls_optimizer_new(&r->sgd, r->params,
                           &(ls_optimizer_spec){.sgd = &options}));
    check(ls_tape_new(&r->tape));
    check(ls_tensor_zeros(&r->x, LS_F32, 2, shape));
    check(ls_tensor_zeros(&r->y, LS_I64, 1, shape));
}

static void step(run *r)
{
    ls_params_zero_grad(r->params);
    ls_tensor *h = ls_linear_layer_forward(&r->first, r->tape, r->x);
    h = stumble(r->tape, ls_relu(r->tape, h));
    h = ls_linear_layer_forward(&r->last, r->tape, h);
    check(ls_ddp_backward(r->ddp, r->tape,
                          ls_cross_entropy(r->tape, h, r->y, NULL), ROWS));
    check(ls_optimizer_step(r->sgd, 1.0));
    ls_tape_reset(r->tape);
}

int main(int argc, char **argv)
{
    run r = {0};
    if (argc != 4)
        return 2;
    begin(&r);
    if (ls_group_rank(r.group) == (int)strtol(argv[2], NULL, 10))
        milliseconds = strtol(argv[3], NULL, 10);
    for (long i = 0; i < strtol(argv[1], NULL, 10); i++)
        step(&r);
    ls_tensor_free(&r.y);
    ls_tensor_free(&r.x);
    ls_tape_free(&r.tape);
    ls_optimizer_free(&r.sgd);
    ls_ddp_free(&r.ddp);
    ls_params_free(&r.params);
    ls_group_close(&r.group);
    return 0;
}

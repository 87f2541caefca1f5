/* A small model for tests of checkpoints. */
#include "checkpoint_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "autograd/params.h"
#include "base/memory.h"
#include "testing.h"
#include "train/checkpoint/folder.h"

static void add(ls_params *params, const char *name, int64_t n)
{
    CHECK_OK(ls_params_add(params, name, 1, &n, (ls_init){LS_INIT_NORMAL, 0, 1},
                           NULL));
}

/* A rank that shares the state out owns a part of no round size. */
static void own_a_part(ls_params *params, const ls_group *group)
{
    size_t count;
    (void)ls_params_flat(params, &count);
    const lsi_range mine = lsi_partition(
        count, (size_t)ls_group_size(group),
        (size_t)(ls_group_size(group) - 1 - ls_group_rank(group)));
    CHECK_OK(lsi_params_set_owned(params, &mine, 1));
}

model make_model(const plan *p, const ls_group *group, uint64_t seed)
{
    model m = {0};
    const int64_t three = 3;
    CHECK_OK(ls_params_new(&m.params));
    add(m.params, "first.weight", 1000);
    add(m.params, "hidden.weight", p->hidden);
    if (p->more)
        add(m.params, "more.weight", 5);
    CHECK_OK(
        ls_params_add_buffer(m.params, "mean", 1, &three, (ls_init){0}, NULL));
    CHECK_OK(ls_params_allocate(m.params, NULL, seed));
    if (p->sharded)
        own_a_part(m.params, group);
    ls_tensor *rest[] = {ls_params_get(m.params, 1)};
    ls_tensor *first[] = {ls_params_get(m.params, 0)};
    if (p->sgd) {
        CHECK_OK(ls_sgd_new(&m.optimizer, m.params,
                            (ls_sgd_options){.lr = 0.1, .momentum = 0.9}));
        return m;
    }
    const ls_adamw_options options = ls_adamw_defaults();
    CHECK_OK(ls_adamw_new_with(&m.optimizer, m.params, first, 1, options));
    CHECK_OK(ls_adamw_add_group(m.optimizer, rest, 1, options));
    return m;
}

void free_model(model *m)
{
    ls_optimizer_free(&m->optimizer);
    ls_params_free(&m->params);
}

/* The same gradients on every rank; weights that no rank steps do not matter.
 */
void train(const model *m, int from, int steps)
{
    for (int step = from; step < from + steps; step++) {
        ls_params_finish_grad(m->params);
        for (size_t i = 0; i < ls_params_count(m->params); i++) {
            ls_tensor *grad = ls_grad(ls_params_get(m->params, i));
            float *g = ls_tensor_data(grad);
            for (int64_t k = 0; k < ls_tensor_count(grad); k++)
                g[k] = (float)((k * 7 + step * 13 + (int64_t)i) % 31) / 16 - 1;
        }
        CHECK_OK(ls_optimizer_step(m->optimizer, 1));
    }
}

void exchange(const plan *p, ls_group *group, const model *m)
{
    size_t count;
    float *flat = ls_params_flat(m->params, &count);
    const size_t size = (size_t)ls_group_size(group);
    for (size_t r = 0; p->sharded && r < size; r++) {
        const lsi_range part = lsi_partition(count, size, size - 1 - r);
        CHECK_OK(ls_broadcast(group, flat + part.begin, lsi_range_size(part),
                              LS_F32, (int)r));
    }
}

void note(plan *p, const ls_group *group, ls_status status)
{
    const int rank = ls_group_rank(group);
    p->status[rank] = status;
    snprintf(p->message[rank], sizeof p->message[rank], "%s",
             status == LS_OK ? "" : ls_last_error());
}

void load(ls_group *group, void *opaque)
{
    plan *const p = opaque;
    model m = make_model(p, group, 99);
    ls_checkpoint *c = NULL;
    ls_status status = ls_checkpoint_open(&c, group, p->folder);
    if (status == LS_OK) {
        p->opened = ls_checkpoint_step(c);
        status = ls_checkpoint_load(c, m.params, m.optimizer);
    }
    note(p, group, status);
    if (status == LS_OK) {
        plan whole = *p;
        whole.sharded = false;
        model expected = make_model(&whole, group, 1);
        size_t count;
        const int done = p->steps >= 0 ? p->steps : (int)p->opened;
        train(&expected, 0, done + 2);
        train(&m, done, 2);
        exchange(p, group, &m);
        const float *a = ls_params_flat(m.params, &count);
        CHECK(memcmp(a, ls_params_flat(expected.params, &count),
                     count * sizeof(float)) == 0);
        free_model(&expected);
    }
    ls_checkpoint_close(&c);
    free_model(&m);
}

plan new_plan(void)
{
    plan p = {.step = 5, .steps = 3, .hidden = 333};
    snprintf(p.folder, sizeof p.folder, "/tmp/lockstep-checkpoint-XXXXXX");
    assert_non_null(mkdtemp(p.folder));
    return p;
}

void discard(const plan *p)
{
    int64_t *steps;
    size_t n;
    assert_ok(lsi_steps_list(p->folder, &steps, &n));
    for (size_t i = 0; i < n; i++)
        assert_ok(lsi_step_remove(p->folder, steps[i]));
    lsi_free(steps);
    assert_int_equal(rmdir(p->folder), 0);
}

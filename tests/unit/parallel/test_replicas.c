/*
 * Silent data corruption: bits that a test flips in the copies of one rank are
 * found in the same step, with tensor, element and rank. Flips that are
 * compared some steps later are found, too, unless their effect has gone.
 */
#include "testing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lockstep/optim.h"
#include "lockstep/parallel.h"
#include "model/autograd/params.h"
#include "model/optim/param_group.h"
#include "model/parallel/ddp.h"
#include "toy.h"
#include "unit/comm/nodes.h"
#include "unit/comm/ranks.h"

enum { FLIPS = 1000, LATE_FLIPS = 200, LATE = 10, LONGEST = 128 };

/* ---- what can be flipped ------------------------------------------------- */

typedef enum kind { WEIGHT, STATE, GRADIENT, KINDS } kind;

typedef struct array {
    char name[LONGEST]; /* as in messages: "weight 'fc1'" */
    unsigned char *data;
    size_t elements; /* f32 */
} array;

typedef struct arrays {
    array all[32];
    size_t n;
} arrays;

static void add(arrays *a, const char *what, const char *name, float *data,
                size_t n)
{
    CHECK(a->n < TEST_COUNT(a->all));
    array *const to = &a->all[a->n++];
    snprintf(to->name, sizeof(to->name), "%s '%s'", what, name);
    to->data = (unsigned char *)data;
    to->elements = n;
}

typedef struct state_context {
    arrays *to;
    const ls_params *params;
} state_context;

static ls_status add_state(void *context, const lsi_state_piece *piece)
{
    const state_context *const c = context;
    char what[64];
    snprintf(what, sizeof(what), "optimizer state %s of", piece->state);
    add(c->to, what, ls_params_name(c->params, piece->param), piece->data,
        piece->n);
    return LS_OK;
}

static arrays list(kind of, const toy *t, const ls_optimizer *optimizer)
{
    arrays a = {.n = 0};
    state_context c = {&a, t->params};
    for (size_t i = 0; of != STATE && i < ls_params_count(t->params); i++) {
        ls_tensor *const w = ls_params_get(t->params, i);
        ls_tensor *const x = of == WEIGHT ? w : ls_grad(w);
        if (x != NULL)
            add(&a, of == WEIGHT ? "weight" : "gradient",
                ls_params_name(t->params, i), tensor_data(x),
                (size_t)ls_tensor_count(x));
    }
    if (of == STATE)
        CHECK_OK(lsi_optimizer_pieces(optimizer,
                                      (lsi_range){0, t->params->storage.count},
                                      add_state, &c));
    return a;
}

/* A flip that all ranks draw, and `rank` makes. */
typedef struct flip {
    kind of;
    int rank;
    array array;
    size_t bit;
} flip;

static flip draw(const toy *t, const ls_optimizer *optimizer, int size,
                 uint64_t number)
{
    static const lsi_rng_key key = {11, 3};
    flip f = {.of = (kind)lsi_rng_below(key, number, 0, KINDS),
              .rank = (int)lsi_rng_below(key, number, 1, (uint64_t)size)};
    const arrays a = list(f.of, t, optimizer);
    f.array = a.all[lsi_rng_below(key, number, 2, a.n)];
    f.bit = lsi_rng_below(key, number, 3, f.array.elements * 32);
    return f;
}

static void make(const flip *f, const ls_group *group)
{
    if (ls_group_rank(group) == f->rank)
        f->array.data[f->bit / 8] ^= (unsigned char)(1U << f->bit % 8);
}

/* ---- a job --------------------------------------------------------------- */

typedef struct plan {
    ls_ddp_strategy strategy;
    uint64_t flips, first;
    /* Counted by rank 0. */
    uint64_t found, vanished;
} plan;

typedef struct job {
    ls_group *group;
    toy toy;
    ls_ddp *ddp;
    ls_optimizer *optimizer;
    int64_t step;
} job;

static void open_job(job *j, ls_group *group, ls_ddp_strategy strategy)
{
    const ls_adamw_options adamw = LS_ADAMW_OPTIONS_INIT;
    const ls_ddp_options options = {.strategy = strategy,
                                    .bucket_bytes =
                                        strategy == LS_DDP_BUCKETED ? 900 : 0};
    *j = (job){.group = group};
    toy_make(&j->toy, false, group, 5);
    CHECK_OK(ls_ddp_new(&j->ddp, group, j->toy.params, &options));
    CHECK_OK(ls_optimizer_new(&j->optimizer, j->toy.params,
                              &(ls_optimizer_spec){.adamw = &adamw}));
}

static void close_job(job *j)
{
    ls_optimizer_free(&j->optimizer);
    ls_ddp_free(&j->ddp);
    toy_destroy(&j->toy);
}

static void gradients(job *j)
{
    const int size = ls_group_size(j->group), rank = ls_group_rank(j->group);
    const int begin = TOY_ROWS * rank / size;
    const int end = TOY_ROWS * (rank + 1) / size;
    ls_params_zero_grad(j->toy.params);
    ls_tensor *const loss = toy_loss(&j->toy, (int)j->step++, begin, end);
    CHECK_OK(ls_ddp_backward(j->ddp, j->toy.tape, loss, end - begin));
    ls_tape_reset(j->toy.tape);
}

static ls_status compare(job *j, bool of_gradients)
{
    return of_gradients ? ls_ddp_compare_gradients(j->ddp, j->step)
                        : ls_ddp_compare_state(j->ddp, j->optimizer, j->step);
}

static void check_equal(job *j)
{
    CHECK_OK(compare(j, true));
    CHECK_OK(compare(j, false));
}

/* The message names step, array, element and ranks. */
static void check_message(const job *j, const flip *f)
{
    char want[400], ranks[64];
    const int size = ls_group_size(j->group);
    snprintf(ranks, sizeof(ranks), size > 2 ? "rank %d" : "ranks 0, 1",
             f->rank);
    snprintf(want, sizeof(want), "in step %" PRId64 ": %s (element %zu: 0x",
             j->step, f->array.name, f->bit / 32);
    if (strstr(ls_last_error(), want) == NULL)
        fprintf(stderr, "not found: %s\n", want);
    CHECK(strstr(ls_last_error(), want) != NULL);
    snprintf(want, sizeof(want), ") on %s differs %s", ranks,
             size > 2 ? "from the copies of all other ranks"
                      : "among copies of which none has a majority");
    CHECK(strstr(ls_last_error(), want) != NULL);
}

/* A flip, compared in the same step, in turn. */
static void flip_at_once(ls_group *group, void *argument)
{
    plan *const p = argument;
    job j;
    open_job(&j, group, p->strategy);
    for (uint64_t i = p->first; i < p->first + p->flips; i++) {
        gradients(&j);
        check_equal(&j);
        const flip f = draw(&j.toy, j.optimizer, ls_group_size(group), i);
        make(&f, group);
        CHECK(compare(&j, f.of == GRADIENT) == LS_ERR_CORRUPT);
        check_message(&j, &f);
        make(&f, group); /* repairs it */
        check_equal(&j);
        if (ls_group_rank(group) == 0)
            p->found++;
        CHECK_OK(ls_optimizer_step(j.optimizer, 1));
    }
    close_job(&j);
}

static void test_every_flip_is_found(void **state)
{
    static const ls_ddp_strategy strategies[] = {LS_DDP_FLAT, LS_DDP_BUCKETED};
    uint64_t found = 0, first = 0;
    (void)state;
    for (int size = 2; size <= 4; size++) {
        for (size_t s = 0; s < TEST_COUNT(strategies); s++) {
            const uint64_t end = FLIPS * (2 * (uint64_t)(size - 2) + s + 1) / 6;
            plan p = {.strategy = strategies[s],
                      .flips = end - first,
                      .first = first};
            run_threads(size, flip_at_once, &p);
            found += p.found;
            first = end;
        }
    }
    printf("flips %d, found in the same step %" PRIu64 "\n", FLIPS, found);
    assert_int_equal(found, FLIPS);
}

/* ---- flips that are compared later --------------------------------------- */

/* Whether all ranks have the same bytes, without digests. */
static bool same_bytes(const job *j)
{
    const int size = ls_group_size(j->group);
    bool same = true;
    for (int of = WEIGHT; of <= STATE; of++) {
        const arrays a = list((kind)of, &j->toy, j->optimizer);
        for (size_t i = 0; i < a.n; i++) {
            const size_t bytes = a.all[i].elements * sizeof(float);
            unsigned char *const all = malloc((size_t)size * bytes);
            CHECK(all != NULL);
            CHECK_OK(ls_all_gather(j->group, a.all[i].data, all, bytes, LS_U8));
            for (int r = 1; r < size; r++)
                same &= memcmp(all, all + (size_t)r * bytes, bytes) == 0;
            free(all);
        }
    }
    return same;
}

/* One flip, and the comparison after LATE steps, each with a new job. */
static void flip_early(ls_group *group, void *argument)
{
    plan *const p = argument;
    for (uint64_t i = p->first; i < p->first + p->flips; i++) {
        job j;
        open_job(&j, group, p->strategy);
        const int64_t when = (int64_t)(i % LATE);
        while (j.step < LATE) {
            gradients(&j);
            const flip f = draw(&j.toy, j.optimizer, ls_group_size(group), i);
            if (j.step - 1 == when)
                make(&f, group);
            CHECK_OK(ls_optimizer_step(j.optimizer, 1));
        }
        const ls_status status = compare(&j, false);
        CHECK(status == LS_OK || status == LS_ERR_CORRUPT);
        CHECK(same_bytes(&j) == (status == LS_OK));
        if (ls_group_rank(group) == 0) {
            p->found += status == LS_ERR_CORRUPT;
            p->vanished += status == LS_OK;
        }
        close_job(&j);
    }
}

static void test_flips_compared_later(void **state)
{
    plan p = {.strategy = LS_DDP_FLAT, .flips = LATE_FLIPS, .first = FLIPS};
    (void)state;
    run_threads(3, flip_early, &p);
    printf("flips %d, compared up to %d steps later: found %" PRIu64
           ", gone and all copies equal %" PRIu64 "\n",
           LATE_FLIPS, LATE, p.found, p.vanished);
    assert_int_equal(p.found + p.vanished, LATE_FLIPS);
    assert_true(p.found > LATE_FLIPS / 2);
}

/* ---- what each strategy compares ----------------------------------------- */

static uint64_t compared_by(job *j, bool of_gradients)
{
    const uint64_t before = lsi_ddp_compared(j->ddp);
    CHECK_OK(compare(j, of_gradients));
    return lsi_ddp_compared(j->ddp) - before;
}

static uint64_t bytes_of(kind of, const job *j)
{
    const arrays a = list(of, &j->toy, j->optimizer);
    uint64_t bytes = 0;
    for (size_t i = 0; i < a.n; i++)
        bytes += a.all[i].elements * sizeof(float);
    return bytes;
}

static void compare_all(ls_group *group, void *argument)
{
    (void)argument;
    for (int s = 1; s <= LS_DDP_STRATEGY_COUNT; s++) {
        const bool divided = s >= LS_DDP_ZERO1, one = s >= LS_DDP_SHARED;
        job j;
        open_job(&j, group, (ls_ddp_strategy)s);
        gradients(&j);
        const uint64_t of_gradients = compared_by(&j, true);
        CHECK_OK(ls_optimizer_step(j.optimizer, 1));
        const uint64_t of_state = compared_by(&j, false);
        CHECK(divided ? of_gradients == 0
                      : of_gradients > bytes_of(GRADIENT, &j));
        if (s < LS_DDP_OWNERS)
            CHECK(of_state == bytes_of(WEIGHT, &j) + bytes_of(STATE, &j));
        else
            CHECK(of_state == (one ? 0 : bytes_of(WEIGHT, &j)));
        if (!one) {
            const flip f = {.rank = 2,
                            .array = list(WEIGHT, &j.toy, NULL).all[0]};
            make(&f, group);
            CHECK(compare(&j, false) == LS_ERR_CORRUPT);
            CHECK(strstr(ls_last_error(), "weight 'fc1' (element 0: 0x") !=
                  NULL);
            make(&f, group);
        }
        close_job(&j);
    }
}

static void test_strategies(void **state)
{
    (void)state;
    run_threads(3, compare_all, NULL);
}

static void set(ls_tensor *tensor, size_t i, float value)
{
    float *const data = tensor_data(tensor);
    data[i] = value;
}

/* The ranks of each node have one copy, and together compare it. */
static void flip_on_a_node(ls_group *group, void *argument)
{
    const bool three = *(const bool *)argument;
    job j;
    open_job(&j, group, LS_DDP_SHARED);
    gradients(&j);
    CHECK_OK(ls_optimizer_step(j.optimizer, 1));
    CHECK_OK(compare(&j, false));
    CHECK(lsi_ddp_compared(j.ddp) > 0);
    CHECK_OK(ls_barrier(group));
    if (ls_group_rank(group) == 1)
        set(j.toy.fc2, 499, 3);
    CHECK_OK(ls_barrier(group));
    CHECK(compare(&j, false) == LS_ERR_CORRUPT);
    CHECK(strstr(ls_last_error(), "weight 'fc2' (element 499: 0x") != NULL);
    CHECK(strstr(ls_last_error(),
                 three ? ") on ranks 0, 1 differs from the copies of all other"
                       : ") on ranks 0, 1, 2 differs among copies") != NULL);
    close_job(&j);
}

static void test_nodes(void **state)
{
    bool three = true;
    (void)state;
    run_nodes((const int[]){2, 1, 2}, 3, flip_on_a_node, &three);
    three = false;
    run_nodes((const int[]){2, 1}, 2, flip_on_a_node, &three);
}

/* ---- running statistics and EMA weights ---------------------------------- */

enum { FEATURES = 5 };

typedef struct norm_job {
    ls_params *params;
    ls_sync_bn *bn;
    ls_tensor *local; /* a buffer that ranks may have with other values */
    ls_ddp *ddp;
    ls_optimizer *optimizer;
} norm_job;

static void open_norm(norm_job *j, ls_group *group, ls_ddp_strategy strategy)
{
    const ls_ddp_options options = {.strategy = strategy};
    const ls_sgd_options sgd = LS_SGD_OPTIONS_INIT;
    const ls_init zeros = {LS_INIT_UNIFORM, 0, 0};
    const int64_t n = FEATURES;
    CHECK_OK(ls_params_new(&j->params));
    CHECK_OK(ls_params_add_buffer(j->params, "local", 1, &n, zeros, &j->local));
    CHECK_OK(ls_sync_bn_new(&j->bn, group, j->params, "bn", n, NULL));
    CHECK_OK(ls_params_allocate(j->params, group, 3));
    CHECK_OK(ls_ddp_new(&j->ddp, group, j->params, &options));
    CHECK_OK(ls_optimizer_new(&j->optimizer, j->params,
                              &(ls_optimizer_spec){.sgd = &sgd}));
    CHECK_OK(ls_ema_start(j->optimizer, 0.9));
    set(j->local, 0, (float)ls_group_rank(group));
}

static void close_norm(norm_job *j)
{
    ls_optimizer_free(&j->optimizer);
    ls_ddp_free(&j->ddp);
    ls_sync_bn_free(&j->bn);
    ls_params_free(&j->params);
}

/* A bit on rank 1, of three ranks with a copy each. */
static void flip_and_compare(ls_group *group, const norm_job *j, float *data,
                             size_t i, const char *name)
{
    char want[2 * LONGEST];
    unsigned char *const bytes = (unsigned char *)&data[i];
    const unsigned char bit = ls_group_rank(group) == 1 ? 4 : 0;
    CHECK_OK(ls_ddp_compare_state(j->ddp, j->optimizer, 7));
    bytes[1] ^= bit;
    CHECK(ls_ddp_compare_state(j->ddp, j->optimizer, 8) == LS_ERR_CORRUPT);
    snprintf(want, sizeof(want), "in step 8: %s (element %zu: 0x", name, i);
    CHECK(strstr(ls_last_error(), want) != NULL);
    CHECK(strstr(ls_last_error(), ") on rank 1 differs from the copies of all "
                                  "other ranks") != NULL);
    bytes[1] ^= bit;
}

static void flip_statistics(ls_group *group, void *argument)
{
    (void)argument;
    for (int s = 1; s <= LS_DDP_STRATEGY_COUNT; s++) {
        norm_job j;
        open_norm(&j, group, (ls_ddp_strategy)s);
        for (size_t i = 0; i < ls_params_buffer_count(j.params); i++) {
            float *const data = tensor_data(ls_params_buffer(j.params, i));
            float *const average = lsi_ema_buffer(j.optimizer, i);
            const char *const name = ls_params_buffer_name(j.params, i);
            char want[LONGEST];
            if (data == (float *)tensor_data(j.local))
                continue;
            snprintf(want, sizeof(want), "buffer '%s'", name);
            flip_and_compare(group, &j, data, i, want);
            snprintf(want, sizeof(want), "EMA of buffer '%s'", name);
            flip_and_compare(group, &j, average, FEATURES - 1, want);
        }
        if (s < LS_DDP_OWNERS)
            flip_and_compare(group, &j, j.optimizer->groups[0]->average, 2,
                             "optimizer state ema of 'bn.bias'");
        close_norm(&j);
    }
}

static void test_statistics(void **state)
{
    (void)state;
    run_threads(3, flip_statistics, NULL);
}

/* ---- misuse and other faults --------------------------------------------- */

/* A rank that cannot compare tells the others why. */
static void compare_too_early(ls_group *group, void *argument)
{
    (void)argument;
    job j;
    open_job(&j, group, LS_DDP_FLAT);
    gradients(&j);
    if (ls_group_rank(group) == 1) {
        ls_tensor *const loss = toy_loss(&j.toy, 0, 0, 2);
        CHECK_OK(ls_ddp_accumulate(j.ddp, j.toy.tape, loss, 2));
        ls_tape_reset(j.toy.tape);
    }
    CHECK(compare(&j, true) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "not synchronised") != NULL);
    CHECK(ls_group_rank(group) == 1 ||
          strstr(ls_last_error(), "rank 1") != NULL);
    close_job(&j);
}

/* Several arrays on several ranks: each is named, and none stops the others. */
static void flip_several(ls_group *group, void *argument)
{
    (void)argument;
    job j;
    open_job(&j, group, LS_DDP_FLAT);
    gradients(&j);
    CHECK_OK(ls_optimizer_step(j.optimizer, 1));
    CHECK_OK(compare(&j, false));
    gradients(&j);
    CHECK_OK(ls_optimizer_step(j.optimizer, 1));
    const int rank = ls_group_rank(group);
    if (rank > 0)
        set(rank == 1 ? j.toy.fc2 : j.toy.out, 7, 3);
    if (rank == 2)
        set(j.toy.fc2_bias, 49, 3);
    CHECK(compare(&j, false) == LS_ERR_CORRUPT);
    CHECK(strstr(ls_last_error(), "weight 'fc2' (element 7: 0x40400000 "
                                  "instead of 0x") != NULL);
    CHECK(strstr(ls_last_error(), ") on rank 1; weight 'fc2.bias' on rank 2; "
                                  "and 1 more differ from") != NULL);
    CHECK(strstr(ls_last_error(), "equal in step 1: train steps 1 to 2") !=
          NULL);
    close_job(&j);
}

static void test_misuse(void **state)
{
    (void)state;
    run_threads(3, compare_too_early, NULL);
    run_threads(3, flip_several, NULL);
}

/* Ranges of memory have gradients, and no weights. */
static void flip_in_ranges(ls_group *group, void *argument)
{
    (void)argument;
    float a[100] = {0}, b[33] = {0};
    const ls_ddp_range ranges[] = {{a, 100}, {b, 33}};
    ls_ddp *ddp;
    CHECK_OK(ls_ddp_new_ranges(&ddp, group, ranges, 2, NULL));
    CHECK_OK(ls_ddp_begin(ddp, 1));
    CHECK_OK(ls_ddp_ready(ddp, 1));
    CHECK_OK(ls_ddp_ready(ddp, 0));
    CHECK_OK(ls_ddp_finish(ddp));
    CHECK_OK(ls_ddp_compare_gradients(ddp, 1));
    if (ls_group_rank(group) == 0)
        b[32] = -0.0F;
    CHECK(ls_ddp_compare_gradients(ddp, 1) == LS_ERR_CORRUPT);
    CHECK(strstr(ls_last_error(), "gradient 'range 1' (element 32: 0x80000000 "
                                  "instead of 0x00000000) on rank 0") != NULL);
    CHECK(ls_ddp_compare_state(ddp, NULL, 1) == LS_ERR_ARGUMENT);
    ls_ddp_free(&ddp);
}

static void test_ranges(void **state)
{
    (void)state;
    run_threads(3, flip_in_ranges, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_flip_is_found),
        cmocka_unit_test(test_flips_compared_later),
        cmocka_unit_test(test_strategies),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

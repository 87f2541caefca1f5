/*
 * A rank that fails alone in training: all ranks end with its sentence, whoever
 * it is and wherever it happens. Nobody waits for it, and nobody is told of
 * calls that differ.
 */
#include "testing.h"

#include <stdio.h>

#include "array/compute/threads.h"
#include "base/error.h"
#include "epochs_job.h"
#include "lockstep/profile.h"
#include "model/parallel/ddp.h"
#include "train/jobs/classify.h"
#include "train/jobs/images.h"
#include "train/jobs/lm.h"
#include "unit/comm/ranks.h"

enum { RANKS = 3 };

/* The failing rank, and the place of the failure. */
typedef struct plan {
    int failing;
    const char *where; /* an event of a job */
    int64_t at;        /* the number that comes with it */
    /* of the loop */
    lsi_net_norm norm;
    int64_t accumulate, batch;
} plan;

typedef struct teller {
    ls_group *group;
    const plan *p;
} teller;

static ls_status fail_if(void *context, const char *where, int64_t at)
{
    const teller *t = context;
    if (ls_group_rank(t->group) != t->p->failing ||
        strcmp(where, t->p->where) != 0 || at != t->p->at)
        return LS_OK;
    return lsi_fail(LS_ERR_IO, "the disk of rank %d is full", t->p->failing);
}

/* After a job that all should end with the failing rank's sentence. */
static void expect_sentence(const plan *p, ls_status status, bool agreed)
{
    char who[16] = "", wanted[80];
    if (p->failing != 0)
        snprintf(who, sizeof who, "rank %d: ", p->failing);
    snprintf(wanted, sizeof wanted, "%sthe disk of rank %d is full", who,
             p->failing);
    CHECK(status == LS_ERR_IO);
    CHECK(agreed);
    CHECK(strcmp(ls_last_error(), wanted) == 0);
}

/* ---- language models ----------------------------------------------------- */

static ls_status lm_begin(void *context, const lsi_lm_start *start)
{
    return fail_if(context, "begin", start->step);
}

static ls_status lm_step(void *context, const lsi_lm_step *step)
{
    return fail_if(context, "step", step->step);
}

static ls_status lm_validation(void *context, int64_t step, double loss)
{
    (void)loss;
    return fail_if(context, "validation", step);
}

static const lsi_recipe adamw = {.optimizer = "adamw",
                                 .lr = 0.001,
                                 .flags = {.beta1 = 0.9,
                                           .beta2 = 0.999,
                                           .eps = 1e-8,
                                           .decay_order = "first"},
                                 .schedule = "constant"};

static lsi_lm_options lm_options(void)
{
    return (lsi_lm_options){.model = {.vocabulary = 256,
                                      .context = 32,
                                      .d_model = 32,
                                      .d_ff = 64,
                                      .layers = 1,
                                      .heads = 2},
                            .steps = 3,
                            .batch_size = 8,
                            .accumulate = 2,
                            .recipe = adamw,
                            .ddp = LS_DDP_OPTIONS_INIT,
                            .validate_every = 2,
                            .validate_batches = 1};
}

static void play_lm(ls_group *group, void *opaque)
{
    teller t = {group, opaque};
    const lsi_lm_events events = {.context = &t,
                                  .begin = lm_begin,
                                  .step = lm_step,
                                  .validation = lm_validation};
    lsi_lm_options options = lm_options();
    options.choose_ddp = t.p->at == 1;
    bool agreed = false;
    const ls_status status = lsi_train_lm(group, &options, &events, &agreed);
    expect_sentence(t.p, status, agreed);
}

static void test_lm_events(void **state)
{
    (void)state;
    static const struct {
        const char *where;
        int64_t at;
    } places[] = {{"begin", 0},      {"validation", 0}, {"step", 1},
                  {"validation", 2}, {"step", 3},       {"validation", 3}};
    for (size_t i = 0; i < TEST_COUNT(places); i++) {
        for (int r = 0; r < RANKS; r++) {
            plan p = {
                .failing = r, .where = places[i].where, .at = places[i].at};
            run_threads(RANKS, play_lm, &p);
        }
    }
}

/*
 * A rank without memory for what a step keeps, or for a validation. The budget
 * is the process's, so ranks are processes here.
 */
static ls_status leave_little(void *context, const lsi_lm_start *start)
{
    const teller *t = context;
    ls_memory_stats memory;
    ls_memory_total(&memory);
    (void)start;
    if (ls_group_rank(t->group) == t->p->failing)
        ls_memory_set_budget(memory.live_bytes + (1 << 19));
    return LS_OK;
}

static void play_out_of_memory(ls_group *group, void *opaque)
{
    teller t = {group, opaque};
    const lsi_lm_events events = {.context = &t,
                                  .begin = leave_little,
                                  .step = lm_step,
                                  .validation = lm_validation};
    lsi_lm_options options = lm_options();
    const bool validates = strcmp(t.p->where, "validation") == 0;
    const bool own = ls_group_rank(group) == t.p->failing;
    bool agreed = false;
    lsi_threads_set(1);
    options.validate_every = validates;
    options.batch_size = 32;
    CHECK(lsi_train_lm(group, &options, &events, &agreed) == LS_ERR_BUDGET);
    CHECK(strstr(ls_last_error(), "would exceed the memory budget") != NULL);
    CHECK(own || strstr(ls_last_error(), "rank 1") != NULL);
    CHECK(agreed == validates);
}

static void test_lm_out_of_memory(void **state)
{
    (void)state;
    plan p = {.failing = 1, .where = "validation"};
    run_processes(RANKS, play_out_of_memory, &p);
    p.where = "step";
    run_processes(RANKS, play_out_of_memory, &p);
}

/* ---- images -------------------------------------------------------------- */

static ls_status images_begin(void *context, const lsi_classify_start *start)
{
    return fail_if(context, "begin", start->step);
}

static ls_status images_epoch(void *context, const lsi_epoch *epoch)
{
    return fail_if(context, "epoch", epoch->epoch);
}

static void play_images(ls_group *group, void *opaque)
{
    teller t = {group, opaque};
    const lsi_classify_events events = {
        .context = &t, .begin = images_begin, .epoch = images_epoch};
    const lsi_classify_options options = {.name = "images",
                                          .model = "cifar-net",
                                          .limit = 24,
                                          .epochs = 2,
                                          .batch_size = 4,
                                          .accumulate = 1,
                                          .prefetch = 1,
                                          .recipe = adamw,
                                          .ddp = LS_DDP_OPTIONS_INIT};
    bool agreed = false;
    const ls_status status =
        lsi_classify_train(group, &options, &events, &agreed);
    expect_sentence(t.p, status, agreed);
}

static void test_images_events(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r += 2) {
        plan p = {.failing = r, .where = "begin"};
        run_threads(RANKS, play_images, &p);
        p.where = "epoch";
        run_threads(RANKS, play_images, &p);
    }
}

/* ---- what cannot be read ------------------------------------------------- */

/* Batches of images, until one that cannot be read. */
typedef struct broken {
    lsi_source whole;
    const plan *p;
    bool fails;
    int64_t given;
} broken;

static ls_status begin_broken(void *self, int64_t epoch, int64_t first,
                              int64_t *steps)
{
    broken *b = self;
    LS_TRY(b->whole.begin(b->whole.self, epoch, first, steps));
    return b->fails && b->p->batch < 0
               ? lsi_fail(LS_ERR_IO, "nothing can be read")
               : LS_OK;
}

static ls_status next_broken(void *self, ls_batch *batch)
{
    broken *b = self;
    if (b->fails && b->given++ == b->p->batch)
        return lsi_fail(LS_ERR_IO, "batch %d cannot be read", (int)b->p->batch);
    return b->whole.next(b->whole.self, batch);
}

typedef struct setup {
    ls_dataset *set;
    lsi_images *images;
    ls_image_net *net;
    lsi_loop loop;
    lsi_epochs epochs;
} setup;

static void make(setup *s, ls_group *group, const plan *p)
{
    const lsi_images_options images = {.batch_size = 2,
                                       .rank = ls_group_rank(group),
                                       .size = ls_group_size(group)};
    const lsi_image_net_setup net = {.config = LSI_IMAGE_CIFAR100,
                                     .norm = p->norm};
    const ls_ddp_options how = LS_DDP_OPTIONS_INIT;
    CHECK_OK(ls_dataset_new_synthetic(&s->set, 24, 1, LS_SUBSET_TRAIN));
    CHECK_OK(lsi_images_new(&s->images, s->set, &images));
    CHECK_OK(lsi_image_net_new(&s->net, group, &net));
    const lsi_model *const model = lsi_image_net_model(s->net);
    epochs_job_init(&s->loop, &s->epochs, group, model);
    s->epochs.accumulate = p->accumulate;
    CHECK_OK(ls_ddp_new(&s->loop.ddp, group, model->params, &how));
    lsi_ddp_defer_scale(s->loop.ddp);
    CHECK_OK(lsi_stepper_init(&s->loop.stepper, model->params, &adamw, 0));
    CHECK_OK(ls_tape_new(&s->loop.tape));
}

static void destroy(setup *s)
{
    ls_tape_free(&s->loop.tape);
    lsi_stepper_release(&s->loop.stepper);
    ls_ddp_free(&s->loop.ddp);
    ls_image_net_free(&s->net);
    lsi_images_free(&s->images);
    ls_dataset_free(&s->set);
}

static void play_unreadable(ls_group *group, void *opaque)
{
    const plan *const p = opaque;
    setup s = {0};
    int32_t well = 1;
    make(&s, group, p);
    broken b = {.whole = lsi_images_source(s.images),
                .p = p,
                .fails = ls_group_rank(group) == p->failing};
    s.epochs.source = (lsi_source){&b, begin_broken, next_broken};
    CHECK(epochs_job_run(&s.loop, &s.epochs) == LS_ERR_IO);
    CHECK(strstr(ls_last_error(), "be read") != NULL);
    CHECK(b.fails || strstr(ls_last_error(), "rank 2 ") != NULL);
    /* The group is as it was. */
    CHECK_OK(ls_all_reduce(group, &well, &well, 1, LS_I32, LS_REDUCE_SUM));
    CHECK(well == RANKS);
    destroy(&s);
}

/* At the beginning, in a first, a second and a last micro-step. */
static void test_what_cannot_be_read(void **state)
{
    (void)state;
    static const struct {
        int64_t accumulate, batch;
    } places[] = {{1, -1}, {1, 1}, {3, 0}, {3, 1}, {3, 2}};
    for (size_t i = 0; i < 2 * TEST_COUNT(places); i++) {
        plan p = {.failing = 2,
                  .norm = i % 2 == 0 ? LSI_NORM_FUSED : LSI_NORM_LOCAL,
                  .accumulate = places[i / 2].accumulate,
                  .batch = places[i / 2].batch};
        run_threads(RANKS, play_unreadable, &p);
    }
}

/* ---- what cannot be counted ---------------------------------------------- */

/* Backward went well, and what came out is not what it should be. */
static ls_status add_badly(void *self, const lsi_forward *out)
{
    lsi_epochs *const e = self;
    const broken *const b = e->source.self;
    LS_TRY(lsi_epochs_add(e, out));
    return b->fails && b->given == b->p->batch
               ? lsi_fail(LS_ERR_IO, "batch %d cannot be counted",
                          (int)b->p->batch)
               : LS_OK;
}

static ls_status next_counted(void *self, ls_batch *batch)
{
    broken *b = self;
    b->given++;
    return b->whole.next(b->whole.self, batch);
}

static void play_uncounted(ls_group *group, void *opaque)
{
    const plan *const p = opaque;
    setup s = {0};
    make(&s, group, p);
    broken b = {.whole = lsi_images_source(s.images),
                .p = p,
                .fails = ls_group_rank(group) == p->failing};
    lsi_train_job job = *s.loop.job;
    job.add = add_badly;
    s.loop.job = &job;
    s.epochs.source = (lsi_source){&b, begin_broken, next_counted};
    CHECK(epochs_job_run(&s.loop, &s.epochs) == LS_ERR_IO);
    CHECK(strstr(ls_last_error(), "cannot be counted") != NULL);
    CHECK(b.fails || strstr(ls_last_error(), "rank 1 ") != NULL);
    destroy(&s);
}

/* In each micro-step but the last, after which nobody waits for it. */
static void test_what_cannot_be_counted(void **state)
{
    (void)state;
    for (int64_t batch = 1; batch < 4; batch++) {
        plan p = {.failing = 1,
                  .norm = LSI_NORM_LOCAL,
                  .accumulate = 4,
                  .batch = batch};
        run_threads(RANKS, play_uncounted, &p);
    }
}

static int one_thread(void **state)
{
    (void)state;
    lsi_threads_set(1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lm_events),
        cmocka_unit_test(test_lm_out_of_memory),
        cmocka_unit_test(test_images_events),
        cmocka_unit_test(test_what_cannot_be_read),
        cmocka_unit_test(test_what_cannot_be_counted),
    };
    return cmocka_run_group_tests(tests, one_thread, NULL);
}

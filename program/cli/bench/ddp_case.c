#include "cli/bench/ddp_case.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/core/agree.h"
#include "model/parallel/ddp.h"

const char *const lsi_ddp_moment_names[LSI_DDP_MOMENTS] = {
    "init", "before_step", "after_step"};

enum { N_TIMES = sizeof(lsi_ddp_times) / sizeof(double) };

static int64_t peak_of(ls_memory_tag tag)
{
    ls_memory_stats stats;
    ls_memory_of(tag, &stats);
    return (int64_t)stats.peak_bytes;
}

/* The peaks since the last moment. */
static void read_peaks(lsi_ddp_peaks *out)
{
    ls_memory_stats total;
    ls_memory_total(&total);
    *out = (lsi_ddp_peaks){.parameters = peak_of(LS_MEMORY_PARAMETERS),
                           .gradients = peak_of(LS_MEMORY_GRADIENTS),
                           .state = peak_of(LS_MEMORY_STATE),
                           .activations = peak_of(LS_MEMORY_ACTIVATIONS),
                           .buckets = peak_of(LS_MEMORY_COMM),
                           .total = (int64_t)total.peak_bytes};
    ls_memory_reset_peak();
}

static ls_status make_trainer(lsi_ddp_case *c)
{
    ls_ddp_options how = LS_DDP_OPTIONS_INIT;
    how.strategy = c->strategy;
    how.bucket_bytes = lsi_bucket_bytes(c->bucket_mb);
    LS_TRY(lsi_ddp_model_init(&c->model, c->group, c->spec));
    LS_TRY(ls_ddp_new(&c->ddp, c->group, c->model.params, &how));
    lsi_ddp_defer_scale(c->ddp);
    ls_memory_reset_peak(); /* drops the peak of the setup */
    return lsi_agree_to_plan(
        c->group, ls_optimizer_new(&c->optimizer, c->model.params, NULL));
}

static ls_status run_step(lsi_ddp_case *c, lsi_ddp_times *out, bool first)
{
    const double waited = lsi_ddp_waited(c->ddp);
    const double begin = lsi_clock_seconds();
    ls_params_zero_grad(c->model.params);
    ls_tensor *const loss = lsi_ddp_model_loss(&c->model);
    const double after_forward = lsi_clock_seconds();
    LS_TRY(ls_ddp_backward(c->ddp, c->model.tape, loss,
                           lsi_ddp_model_weight(&c->model)));
    ls_tape_reset(c->model.tape);
    const double after_backward = lsi_clock_seconds();
    const double in_backward = lsi_ddp_waited(c->ddp) - waited;
    if (first)
        read_peaks(&c->peaks[LSI_DDP_BEFORE_STEP]);
    LS_TRY(ls_optimizer_step(c->optimizer, lsi_ddp_grad_scale(c->ddp)));
    const double end = lsi_clock_seconds();
    if (first)
        read_peaks(&c->peaks[LSI_DDP_AFTER_STEP]);
    const double comm = lsi_ddp_waited(c->ddp) - waited;
    *out = (lsi_ddp_times){
        .forward = after_forward - begin,
        .backward = after_backward - after_forward - in_backward,
        .optimizer = end - after_backward - (comm - in_backward),
        .comm = comm,
        .fraction = comm / (end - begin),
        .step = end - begin};
    return LS_OK;
}

static ls_status run_steps(lsi_ddp_case *c)
{
    const int64_t warmup = c->warmup;
    const int64_t n = c->steps;
    ls_group_counters before, after;
    read_peaks(&c->peaks[LSI_DDP_INIT]);
    for (int64_t i = -warmup; i < n; i++) {
        lsi_ddp_times unused;
        LS_TRY(ls_barrier(c->group));
        ls_group_get_counters(c->group, &before);
        LS_TRY(run_step(c, i < 0 ? &unused : &c->times[i], i == -warmup));
        ls_group_get_counters(c->group, &after);
    }
    c->bytes = after.bytes_sent - before.bytes_sent;
    c->collectives = after.collectives - before.collectives;
    return LS_OK;
}

/* Times become means over ranks, but a step is as long as the slowest rank's.
 */
static ls_status combine(const lsi_ddp_case *c)
{
    const size_t n = (size_t)c->steps;
    double *const steps = c->slowest;
    for (size_t i = 0; i < n; i++)
        steps[i] = c->times[i].step;
    LS_TRY(ls_all_reduce(c->group, steps, steps, n, LS_F64, LS_REDUCE_MAX));
    LS_TRY(ls_all_reduce(c->group, c->times, c->times, n * N_TIMES, LS_F64,
                         LS_REDUCE_AVG));
    for (size_t i = 0; i < n; i++)
        c->times[i].step = steps[i];
    return LS_OK;
}

/* ---- memory demand ------------------------------------------------------- */

enum { MOMENTS = 2 }; /* of AdamW */

static ls_status check_memory(lsi_ddp_case *c)
{
    lsi_memory_plan wish = {.moments = MOMENTS,
                            .rounded = c->spec->dtype != LS_F32};
    ls_status status = lsi_strategy_find(c->strategy, &wish.strategy);
    if (status == LS_OK)
        status = lsi_ddp_model_parameters(c->spec, &wish.parameters);
    LS_TRY(lsi_agree_to_plan(c->group, status));
    c->room = lsi_memory_demand_of(c->group, &wish);
    LS_TRY(lsi_memory_demand_ask(c->group, c->budget, &c->room));
    return lsi_memory_demand_fits(c->room)
               ? LS_OK
               : lsi_memory_demand_fail(c->group, c->room, &wish,
                                        "weights, gradients and moments");
}

static ls_status alloc_times(lsi_ddp_case *c)
{
    void *block;
    const size_t n = (size_t)c->steps;
    LS_TRY(lsi_alloc(&block, n * (N_TIMES + 1) * sizeof(double),
                     LS_MEMORY_OTHER, "measured step times"));
    c->times = block;
    c->slowest = (double *)block + n * N_TIMES;
    return LS_OK;
}

static ls_status run_case(lsi_ddp_case *c)
{
    LS_TRY(check_memory(c));
    LS_TRY(lsi_agree_to_plan(c->group, alloc_times(c)));
    LS_TRY(make_trainer(c));
    /*
     * Steps allocate private memory, which is counted; memory made before is
     * not.
     */
    if (c->room.available < INT64_MAX)
        ls_memory_set_budget((size_t)c->room.available /
                             (size_t)ls_group_local_size(c->group));
    LS_TRY(run_steps(c));
    return combine(c);
}

/* Raises the demand to what the ranks of a machine would have needed. */
static ls_status note_refused(lsi_ddp_case *c)
{
    snprintf(c->reason, sizeof(c->reason), "%s", ls_last_error());
    int64_t most =
        (int64_t)lsi_memory_take_refused() * ls_group_local_size(c->group);
    LS_TRY(ls_all_reduce(c->group, &most, &most, 1, LS_I64, LS_REDUCE_MAX));
    if (most > c->room.needed)
        c->room.needed = most;
    return LS_OK;
}

ls_status lsi_ddp_case_run(lsi_ddp_case *c)
{
    (void)lsi_memory_take_refused();
    const ls_status status = run_case(c);
    ls_memory_set_budget(0);
    c->fits = status == LS_OK;
    if (status != LS_ERR_BUDGET && status != LS_ERR_MEMORY)
        return status;
    return note_refused(c);
}

void lsi_ddp_case_record_demand(const lsi_ddp_case *c, lsi_table *table)
{
    lsi_table_int(table, "needed_bytes", c->room.needed);
    if (c->room.available < INT64_MAX)
        lsi_table_int(table, "available_bytes", c->room.available);
    lsi_table_text(table, "status", c->fits ? "ok" : "out of memory");
}

void lsi_ddp_case_note_reason(const lsi_ddp_case *c, lsi_bench_common *common)
{
    lsi_bench_note(common, "%s: %s\n", ls_ddp_strategy_name(c->strategy),
                   c->reason);
}

void lsi_ddp_case_release(lsi_ddp_case *c)
{
    ls_optimizer_free(&c->optimizer);
    ls_ddp_free(&c->ddp);
    lsi_ddp_model_release(&c->model);
    lsi_free(c->times);
}

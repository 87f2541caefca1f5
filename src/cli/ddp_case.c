#include "cli/ddp_case.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "parallel/ddp.h"

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
static void take_peaks(lsi_ddp_peaks *out)
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

static ls_status make(lsi_ddp_case *c)
{
    ls_ddp_options how = ls_ddp_options_default();
    how.strategy = c->strategy;
    how.bucket_mb = c->bucket_mb;
    LS_TRY(lsi_ddp_model_init(&c->model, c->group, c->spec));
    LS_TRY(ls_ddp_new(&c->ddp, c->group, c->model.params, &how));
    lsi_ddp_defer_scale(c->ddp);
    ls_memory_reset_peak(); /* what it took to get here is over */
    return ls_adamw_new(&c->optimizer, c->model.params, ls_adamw_defaults());
}

static ls_status step(lsi_ddp_case *c, lsi_ddp_times *out, bool first)
{
    const double waited = lsi_ddp_waited(c->ddp);
    const double begin = lsi_clock_seconds();
    ls_params_zero_grad(c->model.params);
    ls_tensor *const loss = lsi_ddp_model_loss(&c->model);
    const double after_forward = lsi_clock_seconds();
    LS_TRY(ls_ddp_backward(c->ddp, c->model.tape, loss,
                           lsi_ddp_model_weight(&c->model), true));
    ls_tape_reset(c->model.tape);
    const double after_backward = lsi_clock_seconds();
    const double in_backward = lsi_ddp_waited(c->ddp) - waited;
    if (first)
        take_peaks(&c->peaks[LSI_DDP_BEFORE_STEP]);
    LS_TRY(ls_optimizer_step(c->optimizer, lsi_ddp_grad_scale(c->ddp)));
    const double end = lsi_clock_seconds();
    if (first)
        take_peaks(&c->peaks[LSI_DDP_AFTER_STEP]);
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
    take_peaks(&c->peaks[LSI_DDP_INIT]);
    for (int64_t i = -warmup; i < n; i++) {
        lsi_ddp_times unused;
        LS_TRY(ls_barrier(c->group));
        ls_group_get_counters(c->group, &before);
        LS_TRY(step(c, i < 0 ? &unused : &c->times[i], i == -warmup));
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
    void *block;
    LS_TRY(lsi_alloc(&block, n * sizeof(double), LS_MEMORY_OTHER,
                     "times of steps"));
    double *const steps = block;
    for (size_t i = 0; i < n; i++)
        steps[i] = c->times[i].step;
    ls_status status = ls_all_reduce(c->group, steps, steps, n, LS_F64, LS_MAX);
    if (status == LS_OK)
        status = ls_all_reduce(c->group, c->times, c->times, n * N_TIMES,
                               LS_F64, LS_AVG);
    for (size_t i = 0; i < n; i++)
        c->times[i].step = steps[i];
    lsi_free(block);
    return status;
}

ls_status lsi_ddp_case_run(lsi_ddp_case *c)
{
    void *block;
    LS_TRY(lsi_alloc(&block, (size_t)c->steps * sizeof(lsi_ddp_times),
                     LS_MEMORY_OTHER, "times of steps"));
    c->times = block;
    LS_TRY(make(c));
    LS_TRY(run_steps(c));
    return combine(c);
}

void lsi_ddp_case_release(lsi_ddp_case *c)
{
    ls_optimizer_free(&c->optimizer);
    ls_ddp_free(&c->ddp);
    lsi_ddp_model_release(&c->model);
    lsi_free(c->times);
}

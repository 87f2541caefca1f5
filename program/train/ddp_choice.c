#include "train/ddp_choice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/append.h"
#include "base/error.h"
#include "comm/api/internode_swap.h"
#include "comm/api/outcome.h"
#include "model/parallel/ddp_state.h"

/*
 * Strategies that can be fastest somewhere; those with one copy of the weights
 * last. The other strategies exist for comparison.
 */
static const ls_ddp_strategy candidates[LSI_DDP_CANDIDATES] = {
    LS_DDP_FLAT, LS_DDP_BUCKETED, LS_DDP_ZERO1, LS_DDP_SHARED, LS_DDP_FSDP};

static const lsi_strategy *row_of(ls_ddp_strategy strategy)
{
    const lsi_strategy *row = NULL;
    (void)lsi_strategy_find(strategy, &row);
    return row;
}

/*
 * sqrt(s w o) with s bytes at 13 GB/s and 5 us a bucket;
 * docs/concepts/parallel.md derives it. Rounded to two digits, so that it reads
 * well.
 */
static size_t usual_bucket_bytes(int64_t parameters)
{
    const double bytes = sqrt((double)parameters * sizeof(float) * 13e9 * 5e-6);
    const double mb = fmax(bytes, 1e4) / 1e6;
    const double unit = pow(10, floor(log10(mb)) - 1);
    return lsi_bucket_bytes(round(mb / unit) * unit);
}

lsi_ddp_choice lsi_ddp_choice_of(const ls_ddp_options *options, bool automatic,
                                 int64_t parameters, int ranks)
{
    lsi_ddp_choice choice = {.reason = LSI_DDP_NAMED, .options = *options};
    if (!automatic || ranks == 1) {
        if (automatic) {
            choice.reason = LSI_DDP_ALONE;
            choice.options.strategy = LS_DDP_FLAT;
            choice.options.bucket_bytes = 0;
        }
        choice.n = 1;
        choice.all[0].options = choice.options;
        return choice;
    }
    choice.reason = LSI_DDP_MEASURED;
    choice.n = LSI_DDP_CANDIDATES;
    for (size_t i = 0; i < choice.n; i++) {
        ls_ddp_options *const o = &choice.all[i].options;
        *o = *options;
        o->strategy = candidates[i];
        if (row_of(o->strategy)->buckets != LSI_BUCKETS_LIMIT)
            o->bucket_bytes = 0;
        else if (o->bucket_bytes == 0)
            o->bucket_bytes = usual_bucket_bytes(parameters);
    }
    return choice;
}

ls_status lsi_ddp_choice_ask(lsi_ddp_choice *choice, ls_group *group,
                             lsi_memory_plan plan, int64_t budget)
{
    lsi_memory_demand least = {.needed = INT64_MAX};
    size_t fitting = 0;
    for (size_t i = 0; i < choice->n; i++) {
        lsi_ddp_candidate *const c = &choice->all[i];
        ls_ddp_options options;
        LS_TRY(lsi_ddp_read_options(&options, &c->options));
        LS_TRY(lsi_strategy_of(&options, lsi_node_count(group), &plan.strategy,
                               &plan.bucket));
        plan.ahead = options.prefetch_layers;
        LS_TRY(lsi_replicas_of(group, &options, &plan.replicas));
        lsi_memory_demand room = lsi_memory_demand_of(group, &plan);
        LS_TRY(lsi_memory_demand_ask(group, budget, &room));
        c->fits = lsi_memory_demand_fits(room);
        if (plan.bucket > 0 && plan.bucket < UINT64_MAX)
            c->options.bucket_bytes = plan.bucket;
        if (c->fits && fitting++ == 0)
            choice->options = c->options;
        if (room.needed - room.available < least.needed - least.available)
            least = room;
    }
    if (fitting == 0)
        return lsi_memory_demand_fail(group, least, &plan,
                                      "weights, gradients and optimizer state");
    if (fitting == 1 && choice->n > 1)
        choice->reason = LSI_DDP_ONLY;
    return LS_OK;
}

/* ---- measurements ------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void lsi_ddp_choice_add(lsi_ddp_candidate *c, double *seconds, size_t n)
{
    qsort(seconds, n, sizeof(*seconds), by_size);
    const double spread = seconds[n / 2] - seconds[0];
    const bool first = c->times++ == 0;
    c->seconds = first ? seconds[0] : fmin(c->seconds, seconds[0]);
    c->spread = first ? spread : fmin(c->spread, spread);
}

/* Stores the indices of the fastest two in out; returns their number. */
static size_t fastest(const lsi_ddp_choice *choice, size_t out[2])
{
    size_t n = 0;
    for (size_t i = 0; i < choice->n; i++) {
        const double seconds = choice->all[i].seconds;
        if (!(seconds > 0))
            continue;
        const bool leads = n == 0 || seconds < choice->all[out[0]].seconds;
        if (n > 0 && leads)
            out[1] = out[0];
        if (leads)
            out[0] = i;
        else if (n == 1 || seconds < choice->all[out[1]].seconds)
            out[1] = i;
        n++;
    }
    return n < 2 ? n : 2;
}

bool lsi_ddp_choice_is_close(const lsi_ddp_choice *choice, size_t out[2])
{
    if (fastest(choice, out) < 2)
        return false;
    const lsi_ddp_candidate *const a = &choice->all[out[0]];
    const lsi_ddp_candidate *const b = &choice->all[out[1]];
    return b->seconds - a->seconds <= fmax(a->spread, b->spread);
}

void lsi_ddp_choice_settle(lsi_ddp_choice *choice)
{
    size_t best[2];
    if (fastest(choice, best) > 0)
        choice->options = choice->all[best[0]].options;
}

bool lsi_ddp_choice_is_new(const lsi_ddp_choice *choice)
{
    return choice->reason != LSI_DDP_NAMED && choice->reason != LSI_DDP_SAVED;
}

/* ---- checkpoints --------------------------------------------------------- */

lsi_ddp_choice_value lsi_ddp_choice_value_of(const lsi_ddp_choice *choice,
                                             int ranks)
{
    lsi_ddp_choice_value value;
    snprintf(value.text, sizeof(value.text), "%s %g %d",
             ls_ddp_strategy_name(choice->options.strategy),
             lsi_bucket_mb(choice->options.bucket_bytes), ranks);
    return value;
}

bool lsi_ddp_choice_restore(lsi_ddp_choice *choice,
                            const ls_checkpoint *checkpoint, int ranks)
{
    const char *const saved =
        ls_checkpoint_value(checkpoint, LSI_DDP_CHOICE_KEY);
    if (saved == NULL || choice->reason != LSI_DDP_MEASURED)
        return false;
    for (size_t i = 0; i < choice->n; i++) {
        lsi_ddp_choice same = {.options = choice->all[i].options};
        if (!choice->all[i].fits ||
            strcmp(lsi_ddp_choice_value_of(&same, ranks).text, saved) != 0)
            continue;
        choice->options = same.options;
        choice->reason = LSI_DDP_SAVED;
        return true;
    }
    return false;
}

/* ---- as text ------------------------------------------------------------- */

#define add(text, ...) lsi_append(text, LSI_DDP_CHOICE_TEXT, __VA_ARGS__)

/* The difference of the first two, and whether it is significant. */
static void add_distance(char *text, const lsi_ddp_choice *choice)
{
    size_t best[2];
    if (fastest(choice, best) < 2)
        return;
    const lsi_ddp_candidate *const a = &choice->all[best[0]];
    const lsi_ddp_candidate *const b = &choice->all[best[1]];
    add(text, "; the fastest two are %.1f%% apart",
        100 * (b->seconds - a->seconds) / a->seconds);
    if (lsi_ddp_choice_is_close(choice, best))
        add(text, ", less than the variation between steps");
    if (a->times > 1)
        add(text, ", measured twice");
}

static void add_measured(char *text, const lsi_ddp_choice *choice)
{
    size_t measured = 0;
    const char *before = "; not enough memory for ";
    for (size_t i = 0; i < choice->n; i++)
        measured += choice->all[i].seconds > 0;
    add(text, "; %zu measured", measured);
    for (size_t i = 0, listed = 0; i < choice->n; i++) {
        const lsi_ddp_candidate *const c = &choice->all[i];
        if (c->seconds > 0)
            add(text, "%s %s %.*f ms", listed++ == 0 ? ":" : ",",
                ls_ddp_strategy_name(c->options.strategy),
                c->seconds < 0.1 ? 2 : 0, c->seconds * 1e3);
    }
    add_distance(text, choice);
    for (size_t i = 0; i < choice->n; i++) {
        if (choice->all[i].fits)
            continue;
        add(text, "%s%s", before,
            ls_ddp_strategy_name(choice->all[i].options.strategy));
        before = ", ";
    }
}

void lsi_ddp_choice_describe(const lsi_ddp_choice *choice,
                             char text[LSI_DDP_CHOICE_TEXT])
{
    const ls_ddp_options *const o = &choice->options;
    text[0] = '\0';
    add(text, "strategy: %s", ls_ddp_strategy_name(o->strategy));
    if (o->bucket_bytes > 0)
        add(text, " --bucket-mb %g", lsi_bucket_mb(o->bucket_bytes));
    if (choice->reason == LSI_DDP_NAMED)
        return;
    add(text, " (auto");
    if (choice->reason == LSI_DDP_ALONE)
        add(text, "; one rank");
    else if (choice->reason == LSI_DDP_ONLY)
        add(text, "; no other strategy fits in memory");
    else if (choice->reason == LSI_DDP_SAVED)
        add(text, "; as in the checkpoint's run");
    else
        add_measured(text, choice);
    add(text, ")");
}

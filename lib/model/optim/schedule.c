/* Learning rates as functions of the step. */
#include <math.h>

#include "base/math.h"
#include "base/structs.h"
#include "lockstep/optim.h"

static const double pi = 3.14159265358979323846;

/*
 * The fraction `passed` / `whole`, from 0 to 1; 0 if `whole` is not positive.
 */
static double part_of(double passed, double whole)
{
    if (passed > whole)
        return 1;
    return whole > 0 ? passed / whole : 0;
}

static double line(double from, double to, double part)
{
    return from + (to - from) * part;
}

static double half_cosine(double from, double to, double part)
{
    return to + 0.5 * (1 + lsi_cos(pi * part)) * (from - to);
}

static double cosine(const ls_lr_schedule *s, int64_t step)
{
    const double passed = (double)(step - s->warmup_steps);
    const double whole = (double)(s->total_steps - s->warmup_steps);
    if (passed > whole)
        return s->min_lr;
    const double angle = whole > 0 ? pi * passed / whole : 0;
    return s->min_lr + 0.5 * (1 + lsi_cos(angle)) * (s->max_lr - s->min_lr);
}

/* From step `begin` on. */
static double decay_from(const ls_lr_schedule *s, int64_t begin, int64_t step)
{
    const double part =
        part_of((double)(step - begin), (double)(s->total_steps - begin));
    return line(s->max_lr, s->min_lr, part);
}

static double inverse_sqrt(const ls_lr_schedule *s, int64_t step)
{
    const double first = s->warmup_steps > 0 ? (double)s->warmup_steps : 1;
    const double lr = s->max_lr * sqrt(first / fmax((double)step, first));
    return fmax(lr, s->min_lr);
}

static double stable(const ls_lr_schedule *s, int64_t step)
{
    const int64_t decay =
        s->decay_steps > 0 ? s->decay_steps : s->total_steps / 10;
    const int64_t begin = s->total_steps - decay;
    const int64_t first = begin > s->warmup_steps ? begin : s->warmup_steps;
    return step < first ? s->max_lr : decay_from(s, first, step);
}

static double one_cycle(const ls_lr_schedule *s, int64_t step)
{
    const double total = (double)s->total_steps;
    const double top =
        (s->warmup_steps > 0 ? (double)s->warmup_steps : 0.3 * total) - 1;
    if ((double)step <= top)
        return half_cosine(s->max_lr / 25, s->max_lr,
                           part_of((double)step, top));
    return half_cosine(s->max_lr, s->min_lr,
                       part_of((double)step - top, total - 1 - top));
}

static double lr_at(const ls_lr_schedule *schedule, int64_t step)
{
    if (schedule->kind == LS_LR_ONE_CYCLE)
        return one_cycle(schedule, step);
    if (step < schedule->warmup_steps)
        return schedule->max_lr * (double)step / (double)schedule->warmup_steps;
    switch (schedule->kind) {
    case LS_LR_COSINE:
        return cosine(schedule, step);
    case LS_LR_LINEAR:
        return decay_from(schedule, schedule->warmup_steps, step);
    case LS_LR_INVERSE_SQRT:
        return inverse_sqrt(schedule, step);
    case LS_LR_WSD:
        return stable(schedule, step);
    default:
        return schedule->max_lr;
    }
}

double ls_lr_at(const ls_lr_schedule *schedule, int64_t step)
{
    ls_lr_schedule own;
    if (schedule == NULL ||
        LSI_STRUCT_READ(&own, schedule, ls_lr_schedule, decay_steps) != LS_OK)
        return 0;
    return lr_at(&own, step);
}

/* Learning rates as functions of the step. */
#include <math.h>

#include "lockstep/optim.h"

static const double pi = 3.14159265358979323846;

static double cosine(const ls_lr_schedule *s, int64_t step)
{
    const double passed = (double)(step - s->warmup_steps);
    const double whole = (double)(s->total_steps - s->warmup_steps);
    if (passed > whole)
        return s->min_lr;
    const double angle = whole > 0 ? pi * passed / whole : 0;
    return s->min_lr + 0.5 * (1 + cos(angle)) * (s->max_lr - s->min_lr);
}

double ls_lr_at(const ls_lr_schedule *schedule, int64_t step)
{
    if (schedule == NULL)
        return 0;
    if (step < schedule->warmup_steps)
        return schedule->max_lr * (double)step / (double)schedule->warmup_steps;
    if (schedule->kind == LS_LR_COSINE)
        return cosine(schedule, step);
    return schedule->max_lr;
}

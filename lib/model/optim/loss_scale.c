/* Dynamic loss scaling (Micikevicius et al., ICLR 2018). */
#include <math.h>

#include "base/error.h"
#include "lockstep/optim.h"

/* Beyond these limits, the scale is not the problem. */
static const double smallest = 0x1p-24, largest = 0x1p+60;

ls_loss_scale ls_loss_scale_defaults(void)
{
    return (ls_loss_scale){
        .scale = 65536, .growth = 2, .backoff = 0.5, .interval = 2000};
}

static ls_status fail_member(const char *member, double value,
                             const char *right)
{
    return lsi_fail(LS_ERR_ARGUMENT, "ls_loss_scale: %s is %g; it must be %s",
                    member, value, right);
}

ls_status ls_loss_scale_check(const ls_loss_scale *scale)
{
    LS_NEED(scale);
    const ls_loss_scale *const s = scale;
    if (!(s->scale >= smallest && s->scale <= largest))
        return fail_member("scale", s->scale, "from 2^-24 to 2^60");
    if (!(s->growth >= 1 && s->growth <= largest))
        return fail_member("growth", s->growth, "from 1 to 2^60");
    if (!(s->backoff > 0 && s->backoff < 1))
        return fail_member("backoff", s->backoff, "above 0 and below 1");
    if (s->interval < 1)
        return fail_member("interval", (double)s->interval, "at least 1");
    if (s->good_steps < 0)
        return fail_member("good_steps", (double)s->good_steps, "at least 0");
    if (s->skipped < 0)
        return fail_member("skipped", (double)s->skipped, "at least 0");
    return LS_OK;
}

static ls_status back_off(ls_loss_scale *s)
{
    const double before = s->scale;
    s->skipped++;
    s->good_steps = 0;
    s->scale = fmax(s->scale * s->backoff, smallest);
    if (before > smallest)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "gradients are infinite or NaN even at the smallest loss "
                    "scale, %g, so the loss scale is not the cause",
                    before);
}

ls_status ls_loss_scale_update(ls_loss_scale *scale, bool finite)
{
    LS_NEED(scale);
    ls_loss_scale *const s = scale;
    if (!finite)
        return back_off(s);
    if (++s->good_steps < s->interval)
        return LS_OK;
    s->scale = fmin(s->scale * s->growth, largest);
    s->good_steps = 0;
    return LS_OK;
}

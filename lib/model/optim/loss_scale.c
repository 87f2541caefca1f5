/* Dynamic loss scaling (Micikevicius et al., ICLR 2018). */
#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "lockstep/optim.h"

/* Further down, or up, it is not the scale that is wrong. */
static const double smallest = 0x1p-24, largest = 0x1p+60;

ls_loss_scale ls_loss_scale_defaults(void)
{
    return (ls_loss_scale){
        .scale = 65536, .growth = 2, .backoff = 0.5, .interval = 2000};
}

ls_status ls_loss_scale_check(const ls_loss_scale *scale)
{
    LS_NEED(scale);
    const ls_loss_scale *const s = scale;
    if (s->scale >= smallest && s->scale <= largest && s->growth >= 1 &&
        s->growth <= largest && s->backoff > 0 && s->backoff < 1 &&
        s->interval >= 1 && s->good_steps >= 0 && s->skipped >= 0)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "loss scale %g, growth %g, backoff %g, interval %" PRId64
                    ", %" PRId64 " good and %" PRId64 " skipped steps; they "
                    "must be %g to %g, at least 1, between 0 and 1, at least "
                    "1, and not negative",
                    s->scale, s->growth, s->backoff, s->interval, s->good_steps,
                    s->skipped, smallest, largest);
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
                    "gradients are infinite or NaN even with a loss "
                    "scale of %g: too large a scale is not the cause",
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

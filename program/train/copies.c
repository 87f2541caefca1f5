#include "train/copies.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/log.h"
#include "model/parallel/ddp.h"

void lsi_copies_warn(const ls_ddp *ddp, const ls_group *group,
                     const ls_ddp_options *options)
{
    const int ranks = ls_group_size(group);
    bool any, all;
    const char *const copies = lsi_ddp_copies(ddp, &any, &all);
    if (all || ls_group_rank(group) != 0)
        return;
    lsi_log(LS_LOG_WARN,
            "--check-replicas compares %s%s: with strategy '%s' on %d rank%s "
            "%s data have no copies",
            copies, any ? " only" : "", ls_ddp_strategy_name(options->strategy),
            ranks, ranks == 1 ? "" : "s", any ? "other" : "the");
}

ls_status lsi_copies_compare(ls_ddp *ddp, const lsi_stepper *stepper,
                             int64_t every)
{
    const int64_t step = stepper->steps + 1;
    if (every == 0)
        return LS_OK;
    LS_TRY(ls_ddp_compare_gradients(ddp, step));
    return step % every == 0
               ? ls_ddp_compare_state(ddp, stepper->optimizer, step)
               : LS_OK;
}

ls_status lsi_copies_fail(ls_status status, const char *folder, int64_t saved)
{
    return saved == 0
               ? status
               : lsi_fail(status,
                          "%s. '%s' contains the checkpoint of step %" PRId64
                          "; to continue from it, use --resume",
                          ls_last_error(), folder, saved);
}

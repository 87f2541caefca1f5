/*
 * One small all-reduce if all ranks succeed. If not, the lowest rank that
 * failed broadcasts its report. Nothing is allocated, as an allocation may have
 * failed.
 */
#include "comm/api/outcome.h"

#include <stdio.h>

#include "base/error.h"

/* The report of a rank that has failed. */
typedef struct report {
    int32_t status;
    char message[508];
} report;

static ls_status adopt(const report *theirs, int rank)
{
    if (rank == 0)
        return lsi_fail((ls_status)theirs->status, "%s", theirs->message);
    return lsi_fail((ls_status)theirs->status, "rank %d: %s", rank,
                    theirs->message);
}

static ls_status share_report(ls_group *group, report *own, bool *agreed)
{
    const int32_t none = ls_group_size(group);
    int32_t first = own->status != LS_OK ? ls_group_rank(group) : none;
    LS_TRY(ls_all_reduce(group, &first, &first, 1, LS_I32, LS_REDUCE_MIN));
    LS_TRY(ls_broadcast(group, own, sizeof(*own), LS_U8, first));
    *agreed = true;
    return adopt(own, first);
}

ls_status lsi_share_mean(ls_group *group, ls_status status, double *value,
                         bool *agreed)
{
    report own = {.status = (int32_t)status};
    double means[2] = {*value, status != LS_OK ? 1.0 : 0.0};
    if (status != LS_OK)
        snprintf(own.message, sizeof(own.message), "%s", ls_last_error());
    LS_TRY(ls_all_reduce(group, means, means, 2, LS_F64, LS_REDUCE_AVG));
    if (means[1] > 0.0)
        return share_report(group, &own, agreed);
    *value = means[0];
    return LS_OK;
}

ls_status lsi_share_outcome(ls_group *group, ls_status status, bool *agreed)
{
    double nothing = 0.0;
    return lsi_share_mean(group, status, &nothing, agreed);
}

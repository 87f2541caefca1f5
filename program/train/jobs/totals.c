/*
 * Loss, hits and samples, summed in double.
 */
#include "train/jobs/totals.h"

#include "base/error.h"
#include "lockstep/nn.h"

ls_status lsi_totals_add(lsi_totals *totals, const lsi_forward *forward)
{
    double loss;
    int64_t hits;
    LS_TRY(ls_tensor_item(forward->loss, &loss));
    LS_TRY(ls_count_correct(forward->logits, forward->labels, &hits));
    totals->loss += loss * forward->weight;
    totals->hits += (double)hits;
    totals->weight += forward->weight;
    return LS_OK;
}

ls_status lsi_totals_reduce(lsi_totals *totals, ls_group *group)
{
    double sums[3] = {totals->loss, totals->hits, totals->weight};
    LS_TRY(ls_reduce(group, sums, sums, 3, LS_F64, LS_SUM, 0));
    if (ls_group_rank(group) == 0)
        *totals = (lsi_totals){sums[0], sums[1], sums[2]};
    return LS_OK;
}

double lsi_totals_loss(const lsi_totals *totals)
{
    return totals->weight > 0 ? totals->loss / totals->weight : 0.0;
}

double lsi_totals_accuracy(const lsi_totals *totals)
{
    return totals->weight > 0 ? totals->hits / totals->weight : 0.0;
}

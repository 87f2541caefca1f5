#include "train/jobs/rank_epochs.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"

enum { NUMBERS = sizeof(lsi_rank_epoch) / sizeof(double) };

ls_status lsi_rank_epochs_new(const ls_group *group, lsi_rank_epoch **out)
{
    void *block = NULL;
    if (ls_group_rank(group) == 0)
        LS_TRY(lsi_alloc_zeroed(
            &block, (size_t)ls_group_size(group) * sizeof(lsi_rank_epoch),
            LS_MEMORY_OTHER, "what epochs were on each rank"));
    *out = block;
    return LS_OK;
}

void lsi_rank_epoch_train(lsi_rank_epoch *own, const lsi_totals *totals)
{
    own->train_loss = lsi_totals_loss(totals);
    own->train_accuracy = lsi_totals_accuracy(totals);
    own->images = totals->weight;
}

void lsi_rank_epoch_validate(lsi_rank_epoch *own, const lsi_totals *totals)
{
    own->val_loss = lsi_totals_loss(totals);
    own->val_accuracy = lsi_totals_accuracy(totals);
}

ls_status lsi_rank_epochs_gather(ls_group *group, const lsi_rank_epoch *own,
                                 lsi_rank_epoch *all)
{
    return ls_gather(group, own, all, NUMBERS, LS_F64, 0);
}

void lsi_rank_epochs_most(const lsi_rank_epoch *all, int n,
                          lsi_rank_epoch *most)
{
    for (int r = 0; r < n; r++) {
        most->train_seconds = fmax(most->train_seconds, all[r].train_seconds);
        most->waited_seconds =
            fmax(most->waited_seconds, all[r].waited_seconds);
        most->peak_bytes = fmax(most->peak_bytes, all[r].peak_bytes);
    }
}

/* The slices of a run; see slices.h. */
#include "train/slices.h"

#include <inttypes.h>

#include "base/bits.h"
#include "base/error.h"
#include "comm/api/place.h"
#include "model/autograd/slices.h"

/* Equal bits on other numbers of ranks need a power of two. */
static ls_status check_portable(int64_t all, int size)
{
    if (!lsi_bits_are_portable() || all == size || (all & (all - 1)) == 0)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "--slices %" PRId64
                    " is neither a power of two nor the number of ranks, %d; "
                    "with LOCKSTEP_BITS=portable use one of them, because "
                    "other numbers change the bits with the number of ranks",
                    all, size);
}

ls_status lsi_slices_of_rank(const ls_group *group, int64_t all,
                             int64_t samples, const char *unit, int *out)
{
    const int size = ls_group_size(group);
    if (all % size != 0 || all / size > LSI_MAX_SLICES)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "cannot divide --slices %" PRId64 " among %d ranks: the number of "
            "slices must be a multiple of the number of ranks, with at most %d "
            "slices per rank",
            all, size, LSI_MAX_SLICES);
    if (all > samples && all > size)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "--slices %" PRId64 " is more than the %" PRId64 " %s of the "
            "global batch (--batch-size times %d rank%s); use fewer slices, or "
            "a larger --batch-size",
            all, samples, unit, size, size == 1 ? "" : "s");
    *out = (int)(all / size);
    return check_portable(all, size);
}

ls_tape_samples lsi_samples_of_rank(const ls_group *group, int64_t count,
                                    int slices)
{
    return (ls_tape_samples){.count = count,
                             .place =
                                 lsi_group_place(group, ls_group_rank(group)),
                             .places = ls_group_size(group),
                             .slices = slices};
}

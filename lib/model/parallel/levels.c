#include "model/parallel/levels.h"

#include "base/bits.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/core/agree.h"
#include "fold/fold.h"

static void warn(const uint8_t *all, int size)
{
    for (int r = 1; r < size; r++)
        if (all[r] != all[0]) {
            lsi_log(LS_LOG_WARN,
                    "ranks use different instructions (rank 0: %s, rank %d: "
                    "%s), so the bits of results depend on which rank is on "
                    "which processor; LOCKSTEP_BITS=portable gives all the "
                    "same bits",
                    lsi_isa_name((lsi_isa)all[0]), r,
                    lsi_isa_name((lsi_isa)all[r]));
            return;
        }
}

ls_status lsi_levels_compare(ls_group *group)
{
    const int size = ls_group_size(group);
    const uint8_t own = (uint8_t)lsi_fold_get()->isa;
    uint8_t *all = NULL;
    if (lsi_bits_are_portable()) /* those of every level */
        return LS_OK;
    ls_status status = lsi_alloc(&all, (size_t)size, LS_MEMORY_OTHER,
                                 "the instruction levels of all ranks");
    status = lsi_agree_to_plan(group, status);
    if (status == LS_OK)
        status = ls_all_gather(group, &own, all, 1, LS_U8);
    if (status == LS_OK && ls_group_rank(group) == 0)
        warn(all, size);
    lsi_free(all);
    return status;
}

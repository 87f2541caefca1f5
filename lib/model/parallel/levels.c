#include "model/parallel/levels.h"

#include "base/bits.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/core/agree.h"
#include "fold/fold.h"

typedef struct way {
    uint8_t bits, isa;
} way;

static ls_status compare_bits(const way *all, int size)
{
    for (int r = 1; r < size; r++)
        if (all[r].bits != all[0].bits)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "rank 0 computes %s bits, rank %d %s bits; give "
                            "all ranks the same ls_set_bits or LOCKSTEP_BITS",
                            lsi_bits_name((ls_bits)all[0].bits), r,
                            lsi_bits_name((ls_bits)all[r].bits));
    return LS_OK;
}

/* Portable bits are those of every level. */
static void compare_levels(const way *all, int size)
{
    for (int r = 1; r < size && !lsi_bits_are_portable(); r++)
        if (all[r].isa != all[0].isa) {
            lsi_log(LS_LOG_WARN,
                    "ranks use different instructions (rank 0: %s, rank %d: "
                    "%s), so the bits of results depend on which rank is on "
                    "which processor; LOCKSTEP_BITS=portable gives all the "
                    "same bits",
                    lsi_isa_name((lsi_isa)all[0].isa), r,
                    lsi_isa_name((lsi_isa)all[r].isa));
            return;
        }
}

ls_status lsi_levels_compare(ls_group *group)
{
    const int size = ls_group_size(group);
    const way own = {(uint8_t)ls_bits_in_use(), (uint8_t)lsi_fold_get()->isa};
    way *all = NULL;
    ls_status status =
        lsi_alloc(&all, (size_t)size * sizeof(*all), LS_MEMORY_OTHER,
                  "the instruction levels of all ranks");
    status = lsi_agree_to_plan(group, status);
    if (status == LS_OK)
        status = ls_all_gather(group, &own, all, sizeof(own), LS_U8);
    if (status == LS_OK)
        status = compare_bits(all, size);
    if (status == LS_OK && ls_group_rank(group) == 0)
        compare_levels(all, size);
    lsi_free(all);
    return status;
}

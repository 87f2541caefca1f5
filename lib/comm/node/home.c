/* The kernel's calls, without libnuma: two are all that is needed. */
#include "comm/node/home.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpuset.h"
#include "base/numa.h"
#include "comm/node/transport.h"

enum { WORD_BITS = 8 * sizeof(unsigned long), MASK_WORDS = 16 };

/* Whether no memory policy has been set for this process. */
static bool is_free_to_choose(void)
{
    int mode = MPOL_DEFAULT;
    return syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) == 0 &&
           mode == MPOL_DEFAULT;
}

bool lsi_home_ask_for(const ls_group *group, int node)
{
    lsi_range own[LSI_REGION_OWN];
    unsigned long mask[MASK_WORDS] = {0};
    bool granted = true;
    if (node < 0 || node >= MASK_WORDS * WORD_BITS)
        return false;
    mask[node / WORD_BITS] = 1UL << (node % WORD_BITS);
    lsi_region_own(&group->memory.layout, group->rank, own);
    for (int i = 0; i < LSI_REGION_OWN; i++) {
        const size_t bytes = lsi_range_size(own[i]);
        if (bytes > 0)
            granted &=
                syscall(SYS_mbind, group->memory.region + own[i].begin, bytes,
                        MPOL_PREFERRED, mask,
                        (unsigned long)(MASK_WORDS * WORD_BITS), 0UL) == 0;
    }
    return granted;
}

void lsi_home_ask(const ls_group *group)
{
    lsi_cpuset cpus;
    int node = -1;
    if (group->size > 1 && lsi_cpuset_own(&cpus))
        node = lsi_numa_home(LSI_NUMA_FOLDER, &cpus);
    /* Pages that the kernel refuses to place go where they would have gone. */
    if (node >= 0 && is_free_to_choose())
        (void)lsi_home_ask_for(group, node);
}

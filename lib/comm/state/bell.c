#include "comm/state/bell.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

uint32_t lsi_bell_bit(int rank)
{
    return (uint32_t)1 << (rank % 32);
}

static void ring(ls_group *group, uint32_t bits)
{
    atomic_store(&group->memory.header->rung_ns, lsi_clock_ns());
    atomic_fetch_add(&group->memory.header->bell, 1);
    syscall(SYS_futex, &group->memory.header->bell, FUTEX_WAKE_BITSET, INT_MAX,
            NULL, NULL, bits);
}

void lsi_wake_all(ls_group *group)
{
    ring(group, UINT32_MAX);
}

void lsi_wake_rank(ls_group *group, int rank)
{
    if (atomic_load(&lsi_member_of(group, rank)->asleep) != 0)
        ring(group, lsi_bell_bit(rank));
}

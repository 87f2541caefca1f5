/*
 * process_vm_readv copies straight from another process, if the kernel allows
 * it: seccomp filters of containers often do not, and Yama wants each process
 * to consent. So it is tried when a group is opened, and used only if every
 * rank can read every other.
 */
#include "comm/node/remote.h"

#include <errno.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/health/failure.h"
#include "comm/node/channel_memory.h"
#include "comm/state/channels.h"

/* What others read as a test; the value differs from process to process. */
static _Atomic uint64_t cookie;

void lsi_remote_offer(lsi_member *self)
{
    /* Without Yama this fails, and is not needed. */
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    uint64_t fresh = 0;
    const uint64_t value =
        (lsi_clock_ns() << 22 | (uint64_t)(unsigned)getpid()) | 1;
    (void)atomic_compare_exchange_strong(&cookie, &fresh, value);
    self->cookie_at = (uint64_t)(uintptr_t)&cookie;
    self->cookie = atomic_load(&cookie);
}

bool lsi_remote_probe(const ls_group *group)
{
    for (int r = 0; r < group->size; r++) {
        const lsi_channel_kind *channel = lsi_channel_to(group, r);
        const lsi_member *member = lsi_member_of(group, r);
        uint64_t word = 0;
        if (channel->read == NULL)
            return false;
        if (r == group->rank || channel == &lsi_channel_process)
            continue;
        if (channel->read(group, r, &word, member->cookie_at, sizeof(word)) !=
                0 ||
            word != member->cookie)
            return false;
    }
    return true;
}

ls_status lsi_remote_read(ls_group *group, int rank, void *to, uint64_t from,
                          size_t bytes)
{
    const lsi_channel_kind *channel = lsi_channel_to(group, rank);
    if (channel->read(group, rank, to, from, bytes) == 0)
        return LS_OK;
    const bool dead = errno == ESRCH || !channel->alive(group, rank);
    lsi_post_failure(
        group, &(lsi_failure){.status = dead ? LS_ERR_PEER_DEAD : LS_ERR_SYSTEM,
                              .rank_a = rank,
                              .rank_b = group->rank,
                              .sequence = group->queue.completed + 1});
    return lsi_report_failure(group);
}

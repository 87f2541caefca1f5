/*
 * process_vm_readv copies straight from another process, if the kernel allows
 * it: seccomp filters of containers often do not, and Yama wants each process
 * to consent. So it is tried when a group's selection table may choose it, and
 * used only if every rank can read every other.
 */
#include "comm/node/remote.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/held.h"
#include "base/proc.h"
#include "comm/health/failure.h"
#include "comm/state/channels.h"

/*
 * A word that other ranks read as a test; it differs from process to process.
 */
static _Atomic uint64_t cookie;

void lsi_remote_offer(lsi_member *self)
{
    uint64_t fresh = 0;
    const uint64_t value =
        (lsi_clock_ns() << 22 | (uint64_t)(unsigned)getpid()) | 1;
    (void)atomic_compare_exchange_strong(&cookie, &fresh, value);
    self->cookie_at = (uint64_t)(uintptr_t)&cookie;
    self->cookie = atomic_load(&cookie);
}

/* ---- who may read -------------------------------------------------------- */

/*
 * Yama accepts one process for each that consents. This process and its
 * descendants may then trace, which is more than to read. So the accepted
 * process is the nearest ancestor of all ranks that may read, mostly their
 * launcher, and only while they may.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int groups; /* that read */
static pid_t admitted;

enum { GENERATIONS = 64 };

/* This process and those above it, and which of them a common one is. */
typedef struct line {
    pid_t pid[GENERATIONS];
    int n, common; /* n: there is none */
} line;

static void add_to_line(line *of, pid_t pid)
{
    for (int steps = 0; pid > 0 && steps < GENERATIONS; steps++) {
        for (int i = 0; i < of->n; i++) {
            if (of->pid[i] != pid)
                continue;
            of->common = i > of->common ? i : of->common;
            return;
        }
        pid = lsi_parent_of(pid);
    }
    of->common = of->n;
}

/* Everybody descends from the first process, except in a container. */
static bool is_for_all(pid_t pid)
{
    enum { INITIAL_PID_NAMESPACE = 0xeffffffc }; /* linux/proc_ns.h */
    struct stat space;
    return pid == 1 && (stat("/proc/self/ns/pid", &space) != 0 ||
                        space.st_ino == (ino_t)INITIAL_PID_NAMESPACE);
}

/* Of the ranks, and of those that may read already; 0: there is none. */
static pid_t common_ancestor(const ls_group *group)
{
    line own = {.n = 0};
    assert(lsi_mutex_held(&lock));
    for (pid_t pid = getpid(); pid > 0 && own.n < GENERATIONS;
         pid = lsi_parent_of(pid))
        own.pid[own.n++] = pid;
    for (int r = 0; r < group->size && own.common < own.n; r++)
        add_to_line(&own, lsi_member_of(group, r)->pid);
    if (admitted != 0 && own.common < own.n)
        add_to_line(&own, admitted);
    return own.common < own.n && !is_for_all(own.pid[own.common])
               ? own.pid[own.common]
               : 0;
}

static bool is_one_process(const ls_group *group)
{
    for (int r = 0; r < group->size; r++)
        if (r != group->rank &&
            lsi_channel_to(group, r) != &lsi_channel_process)
            return false;
    return true;
}

void lsi_remote_admit(ls_group *group)
{
    if (group->memory.admits || is_one_process(group))
        return;
    pthread_mutex_lock(&lock);
    const pid_t pid = common_ancestor(group);
    if (pid != 0) {
        /* Without Yama this fails, and is not needed. */
        (void)prctl(PR_SET_PTRACER, (unsigned long)pid, 0, 0, 0);
        admitted = pid;
        groups++;
        group->memory.admits = true;
    }
    pthread_mutex_unlock(&lock);
}

void lsi_remote_dismiss(ls_group *group)
{
    if (!group->memory.admits)
        return;
    group->memory.admits = false;
    pthread_mutex_lock(&lock);
    assert(groups > 0);
    if (--groups == 0) {
        (void)prctl(PR_SET_PTRACER, 0, 0, 0, 0);
        admitted = 0;
    }
    pthread_mutex_unlock(&lock);
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
        group,
        &(lsi_failure_record){.status = dead ? LS_ERR_PEER_DEAD : LS_ERR_SYSTEM,
                              .rank_a = rank,
                              .rank_b = group->rank,
                              .sequence = group->queue.completed + 1});
    return lsi_report_failure(group);
}

/*
 * The side of ranks other than 0, and what both sides share.
 */
#include "comm/bootstrap/rendezvous.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/ended.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/api/group.h"
#include "comm/node/transport.h"

/* Rank 0 gives up first, so that its reason reaches the others. */
#define GRACE_SECONDS 1.0

enum { FIRST_PAUSE_US = 500, LONGEST_PAUSE_US = 5000 };

static void pause_us(long us)
{
    const struct timespec pause = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

/* Of the ranks that wait for rank 0, one logs it: the first to bind a name. */
static int log_waiting(const lsi_world *world)
{
    char name[sizeof(world->name) + 8];
    snprintf(name, sizeof(name), "%s-waits", world->name);
    const int herald = lsi_listen(name, 0);
    if (herald >= 0)
        lsi_log(LS_LOG_WARN, "still waiting for rank 0 of %d; this is rank %d",
                world->size, world->rank);
    return herald;
}

/* LS_ERR_PEER_DEAD if rank 0 is known to have ended. */
static ls_status check_host(const lsi_world *world)
{
    if (world->job != NULL && lsi_has_ended(world->job, 0))
        return lsi_fail(LS_ERR_PEER_DEAD,
                        "rank 0 exited with status 0 before it joined the "
                        "group; this is rank %d of %d",
                        world->rank, world->size);
    if (world->has_died != NULL && world->has_died(world->observer, 0))
        return lsi_fail(LS_ERR_PEER_DEAD,
                        "rank 0 died, or gave up, while the ranks were "
                        "connecting; this is rank %d of %d",
                        world->rank, world->size);
    return LS_OK;
}

/* Knocks until rank 0 opens. */
static ls_status connect_to_host(const lsi_world *world, lsi_deadline deadline,
                                 int *out, int *herald)
{
    lsi_deadline log_at = lsi_deadline_in(LSI_LOG_SECONDS);
    for (long pause = FIRST_PAUSE_US;; pause *= 2) {
        const int fd = lsi_connect(world->name);
        if (fd >= 0) {
            *out = fd;
            return LS_OK;
        }
        if (fd != -ECONNREFUSED && fd != -ENOENT && fd != -EAGAIN) {
            errno = -fd;
            return lsi_fail_errno(
                LS_ERR_SYSTEM, "rank %d cannot connect to rank 0", world->rank);
        }
        if (lsi_deadline_poll(deadline) == 0)
            return lsi_fail(
                LS_ERR_TIMEOUT,
                "rank %d of %d gave up waiting for rank 0. Check that rank 0 "
                "was started on this machine, in the same job (%s)",
                world->rank, world->size, world->named_by);
        if (pause >= LONGEST_PAUSE_US)
            LS_TRY(check_host(world));
        if (lsi_deadline_poll(log_at) == 0) {
            log_at = lsi_deadline_in(0);
            *herald = log_waiting(world);
        }
        pause = pause > LONGEST_PAUSE_US ? LONGEST_PAUSE_US : pause;
        pause_us(pause);
    }
}

static ls_status find_host(const lsi_world *world, lsi_deadline deadline,
                           int *out)
{
    int herald = -1;
    const ls_status status = connect_to_host(world, deadline, out, &herald);
    if (herald >= 0)
        close(herald);
    return status;
}

static ls_status send_hello(const lsi_world *world, int fd, ls_status status)
{
    const lsi_hello hello = {LSI_RENDEZVOUS_MAGIC, world->rank, world->size,
                             (int32_t)getpid(), status};
    if (lsi_send_packet(fd, &hello, sizeof(hello), -1) == 0)
        return LS_OK;
    if (errno == EPIPE || errno == ECONNRESET)
        return LS_OK; /* its answer has the reason */
    return lsi_fail_errno(LS_ERR_SYSTEM, "rank %d cannot send to rank 0",
                          world->rank);
}

static ls_status receive_answer(const lsi_world *world, int fd,
                                lsi_deadline deadline, int *memfd)
{
    lsi_answer answer;
    const int got =
        lsi_receive_packet(fd, &answer, sizeof(answer), memfd, deadline);
    if (got == 0)
        return lsi_fail(LS_ERR_PEER_DEAD,
                        "rank 0 died while the ranks were connecting; this is "
                        "rank %d of %d",
                        world->rank, world->size);
    if (got < 0 && errno == ETIMEDOUT)
        return lsi_fail(LS_ERR_TIMEOUT,
                        "rank 0 did not answer in time; this is rank %d of %d",
                        world->rank, world->size);
    const bool lacks =
        got > 0 && answer.status == LS_OK && memfd != NULL && *memfd < 0;
    if (got < 0 || answer.magic != LSI_RENDEZVOUS_MAGIC || lacks)
        return lsi_fail(
            LS_ERR_SYSTEM,
            "rank 0 sent a message that this rank does not understand. Link "
            "all ranks with the same version of the library");
    if (answer.status != LS_OK)
        return lsi_fail(lsi_error_of_peer(answer.status), "%.*s",
                        (int)sizeof(answer.text),
                        answer.text[0] != '\0'
                            ? answer.text
                            : "rank 0 failed, but did not send the reason");
    return LS_OK;
}

/* Receives the answer with the memory, which the caller must close. */
static ls_status receive_memory(const lsi_world *world, int fd,
                                lsi_deadline deadline, int *memfd)
{
    int came = -1;
    const ls_status status = receive_answer(world, fd, deadline, &came);
    if (status == LS_OK)
        *memfd = came;
    else if (came >= 0)
        close(came);
    return status;
}

static ls_status open_client(const lsi_world *world, int memfd, ls_group **out)
{
    lsi_node_memory *node = NULL;
    LS_TRY(lsi_node_memory_shm(memfd, world->rank, &node));
    return lsi_group_open(node, lsi_first_membership(world->rank, world->size),
                          out);
}

static ls_status meet(const lsi_world *world, int fd, lsi_deadline deadline,
                      ls_group **out)
{
    int memfd = -1;
    LS_TRY(send_hello(world, fd, LS_OK));
    LS_TRY(receive_memory(world, fd, deadline, &memfd));
    ls_group *group = NULL;
    const ls_status opened = open_client(world, memfd, &group);
    ls_status status = send_hello(world, fd, opened);
    if (status == LS_OK && opened == LS_OK)
        status = receive_answer(world, fd, deadline, NULL);
    if (opened != LS_OK)
        return opened;
    if (status != LS_OK) {
        ls_group_close(&group);
        return status;
    }
    *out = group;
    return LS_OK;
}

ls_status lsi_rendezvous(const lsi_world *world, double seconds, ls_group **out)
{
    int fd = -1;
    if (world->rank == 0)
        return lsi_rendezvous_serve(world, lsi_deadline_in(seconds), out);
    const lsi_deadline deadline =
        lsi_deadline_in(seconds > 0 ? seconds + GRACE_SECONDS : 0);
    LS_TRY(find_host(world, deadline, &fd));
    ls_status status = LS_OK;
    if (!lsi_same_user(fd))
        status = lsi_fail(LS_ERR_SYSTEM,
                          "another user's process listens at the address of "
                          "rank 0 of this job; use another job name (%s)",
                          world->named_by);
    if (status == LS_OK)
        status = meet(world, fd, deadline, out);
    close(fd);
    return status;
}

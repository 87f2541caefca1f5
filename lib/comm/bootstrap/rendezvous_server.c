/* The side of rank 0, which lets the others in. */
#include "comm/bootstrap/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/ended.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/api/group.h"
#include "comm/node/transport.h"

enum { EVERYBODY = LSI_MAX_RANKS, COUNT_BYTES = 256, MORE_BYTES = 32 };

/* Seconds that a failed meeting stays open for ranks that are still to come. */
#define LATECOMER_SECONDS 0.5

typedef struct server_state {
    const lsi_world *world;
    lsi_deadline deadline;
    lsi_deadline log_at; /* when to log the missing ranks */
    int listener;
    int clients[EVERYBODY];   /* the socket of each rank, or -1 */
    int strangers[EVERYBODY]; /* connected, but have not sent their rank */
    int n_strangers;
    int arrived; /* number of ranks, including rank 0 */
    int memfd;
} server_state;

/* ---- waiting for the clients --------------------------------------------- */

/* "6 of 8 ranks have joined; missing ranks: 3, 5", the missing as far as they
 * fit. */
static void count_ranks(const server_state *server, char text[COUNT_BYTES])
{
    const int size = server->world->size;
    int missing = size - server->arrived;
    int used = snprintf(
        text, COUNT_BYTES,
        "%d of %d ranks have joined; missing ranks:", server->arrived, size);
    const char *before = " ";
    for (int r = 1; r < size && used < COUNT_BYTES - MORE_BYTES; r++) {
        if (server->clients[r] >= 0)
            continue;
        used += snprintf(text + used, MORE_BYTES, "%s%d", before, r);
        before = ", ";
        missing--;
    }
    if (missing > 0)
        snprintf(text + used, MORE_BYTES, " and %d more", missing);
}

static ls_status time_out(const server_state *server)
{
    char count[COUNT_BYTES];
    count_ranks(server, count);
    return lsi_fail(LS_ERR_TIMEOUT,
                    "timed out: %s. Check that the missing ranks were started "
                    "on this machine, in the same job",
                    count);
}

static ls_status fail_lost(int rank)
{
    return lsi_fail(LS_ERR_PEER_DEAD,
                    "rank %d died while the ranks were connecting", rank);
}

/* Called when no rank has connected for a while. */
static ls_status check_missing(server_state *server)
{
    const lsi_world *world = server->world;
    char count[COUNT_BYTES];
    for (int r = 1; r < world->size; r++) {
        if (server->clients[r] >= 0)
            continue;
        if (world->job != NULL && lsi_has_ended(world->job, r))
            return lsi_fail(LS_ERR_PEER_DEAD,
                            "rank %d exited with status 0 before it joined the "
                            "%d ranks of its job",
                            r, world->size);
        if (world->has_died != NULL && world->has_died(world->observer, r))
            return fail_lost(r);
    }
    if (lsi_deadline_poll(server->log_at) == 0) {
        server->log_at = lsi_deadline_in(0);
        count_ranks(server, count);
        lsi_log(LS_LOG_WARN, "%s", count);
    }
    return LS_OK;
}

/* Milliseconds until it is time to look; for poll. */
static int patience_of(const server_state *server)
{
    const int left = lsi_deadline_poll(server->deadline);
    return left >= 0 && left < LSI_CHECK_MS ? left : LSI_CHECK_MS;
}

static ls_status accept_stranger(server_state *server)
{
    const int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno == EINTR || errno == ECONNABORTED || errno == EAGAIN)
            return LS_OK;
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "rank 0 cannot accept a connection");
    }
    if (!lsi_same_user(fd) || server->n_strangers == EVERYBODY)
        close(fd);
    else
        server->strangers[server->n_strangers++] = fd;
    return LS_OK;
}

static ls_status check_hello(const server_state *server, const lsi_hello *hello)
{
    const lsi_world *world = server->world;
    if (hello->size != world->size)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "world size mismatch: rank %d was started with %d "
                        "ranks, rank 0 with %d",
                        hello->rank, hello->size, world->size);
    if (hello->rank < 1 || hello->rank >= world->size)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the process with pid %d was started as rank %d; ranks "
                        "that connect to rank 0 must be 1 to %d",
                        hello->pid, hello->rank, world->size - 1);
    if (server->clients[hello->rank] >= 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "two processes were started as rank %d (one has pid "
                        "%d). Check that no other job uses the same name (%s)",
                        hello->rank, hello->pid, world->named_by);
    return LS_OK;
}

/* Receives a stranger's rank. One that hangs up at once is forgotten. */
static ls_status greet(server_state *server, int index)
{
    lsi_hello hello;
    const int fd = server->strangers[index];
    server->strangers[index] = server->strangers[--server->n_strangers];
    const int got =
        lsi_receive_packet(fd, &hello, sizeof(hello), NULL, server->deadline);
    if (got != 1 || hello.magic != LSI_RENDEZVOUS_MAGIC) {
        close(fd);
        return LS_OK;
    }
    const ls_status status = check_hello(server, &hello);
    if (status != LS_OK) {
        server->strangers[server->n_strangers++] = fd; /* is told why, later */
        return status;
    }
    server->clients[hello.rank] = fd;
    server->arrived++;
    return LS_OK;
}

/* Handles the descriptors that poll has found. */
static ls_status attend(server_state *server, const struct pollfd *polled,
                        int n)
{
    const int strangers = server->n_strangers;
    for (int i = n - 1; i > strangers; i--) /* ranks that should be silent */
        if (polled[i].revents != 0)
            for (int r = 1; r < server->world->size; r++)
                if (server->clients[r] == polled[i].fd)
                    return fail_lost(r);
    for (int i = strangers - 1; i >= 0; i--)
        if (polled[1 + i].revents != 0)
            LS_TRY(greet(server, i));
    return polled[0].revents != 0 ? accept_stranger(server) : LS_OK;
}

static ls_status gather_clients(server_state *server)
{
    static _Thread_local struct pollfd polled[2 * EVERYBODY + 1];
    while (server->arrived < server->world->size) {
        int n = 0;
        polled[n++] = (struct pollfd){.fd = server->listener, .events = POLLIN};
        for (int i = 0; i < server->n_strangers; i++)
            polled[n++] =
                (struct pollfd){.fd = server->strangers[i], .events = POLLIN};
        for (int r = 1; r < server->world->size; r++)
            if (server->clients[r] >= 0)
                polled[n++] =
                    (struct pollfd){.fd = server->clients[r], .events = POLLIN};
        const int ready = poll(polled, (nfds_t)n, patience_of(server));
        if (ready < 0 && errno != EINTR)
            return lsi_fail_errno(LS_ERR_SYSTEM,
                                  "rank 0 cannot wait for connections");
        if (ready == 0 && lsi_deadline_poll(server->deadline) == 0)
            return time_out(server);
        if (ready == 0)
            LS_TRY(check_missing(server));
        if (ready > 0)
            LS_TRY(attend(server, polled, n));
    }
    return LS_OK;
}

/* ---- after all have come ------------------------------------------------- */

static void send_answer(int fd, ls_status status, int descriptor)
{
    lsi_answer answer = {.magic = LSI_RENDEZVOUS_MAGIC, .status = status};
    if (status != LS_OK)
        snprintf(answer.text, sizeof(answer.text), "%.*s",
                 (int)sizeof(answer.text) - 1, ls_last_error());
    /* One that does not listen any more will be found dead. */
    (void)lsi_send_packet(fd, &answer, sizeof(answer), descriptor);
}

static void send_answers(const server_state *server, ls_status status,
                         int descriptor)
{
    for (int r = 1; r < server->world->size; r++)
        if (server->clients[r] >= 0)
            send_answer(server->clients[r], status, descriptor);
    for (int i = 0; i < server->n_strangers; i++)
        if (status != LS_OK)
            send_answer(server->strangers[i], status, -1);
}

/*
 * A rank that connects when the meeting has failed would find no listener and
 * blame rank 0. It is let in, to receive the reason of the failure.
 */
static void admit_latecomers(server_state *server)
{
    const lsi_deadline until = lsi_deadline_in(LATECOMER_SECONDS);
    struct pollfd knock = {.fd = server->listener, .events = POLLIN};
    while (server->arrived + server->n_strangers < server->world->size) {
        const int left = lsi_deadline_poll(until);
        const int ready = poll(&knock, 1, left);
        if (left == 0 || ready < 0 ||
            (ready > 0 && accept_stranger(server) != LS_OK))
            return;
    }
}

static ls_status open_host(server_state *server, ls_group **out)
{
    lsi_node_memory *node = NULL;
    LS_TRY(lsi_shm_create(&server->memfd));
    LS_TRY(
        lsi_node_memory_shm(server->memfd, 0, &node)); /* owns it from now on */
    LS_TRY(lsi_group_open(node, lsi_first_membership(0, server->world->size),
                          out));
    lsi_job_begin(*out);
    return LS_OK;
}

static ls_status await_ready(server_state *server)
{
    for (int r = 1; r < server->world->size; r++) {
        lsi_hello hello;
        const int got = lsi_receive_packet(
            server->clients[r], &hello, sizeof(hello), NULL, server->deadline);
        if (got == 0)
            return fail_lost(r);
        if (got < 0 && errno == ETIMEDOUT)
            return lsi_fail_errno(LS_ERR_TIMEOUT,
                                  "rank %d did not open its group in time", r);
        if (got < 0 || hello.magic != LSI_RENDEZVOUS_MAGIC || hello.rank != r)
            return lsi_fail(
                LS_ERR_SYSTEM,
                "rank %d sent a message that rank 0 does not understand. Link "
                "all ranks with the same version of the library",
                r);
        if (hello.status == LS_OK)
            continue;
        const ls_status status = lsi_error_of_peer(hello.status);
        return lsi_fail(status, "rank %d could not open its group: %s", r,
                        ls_status_text(status));
    }
    return LS_OK;
}

/* A former job with the same name may take a moment to go away. */
static ls_status listen_long(server_state *server)
{
    for (;;) {
        server->listener = lsi_listen(server->world->name, server->world->size);
        if (server->listener >= 0)
            return LS_OK;
        if (server->listener != -EADDRINUSE ||
            lsi_deadline_poll(server->deadline) == 0) {
            errno = -server->listener;
            return lsi_fail_errno(LS_ERR_SYSTEM,
                                  "rank 0 cannot listen for other ranks; "
                                  "another job may use the same name (%s)",
                                  server->world->named_by);
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

static void clean_up(server_state *server)
{
    for (int r = 1; r < server->world->size; r++)
        if (server->clients[r] >= 0)
            close(server->clients[r]);
    for (int i = 0; i < server->n_strangers; i++)
        close(server->strangers[i]);
    if (server->listener >= 0)
        close(server->listener);
}

static ls_status welcome(server_state *server, ls_group **group)
{
    LS_TRY(listen_long(server));
    LS_TRY(gather_clients(server));
    LS_TRY(open_host(server, group));
    send_answers(server, LS_OK, server->memfd);
    return await_ready(server);
}

ls_status lsi_rendezvous_serve(const lsi_world *world, lsi_deadline deadline,
                               ls_group **out)
{
    server_state server = {.world = world,
                           .deadline = deadline,
                           .log_at = lsi_deadline_in(LSI_LOG_SECONDS),
                           .listener = -1,
                           .arrived = 1,
                           .memfd = -1};
    for (int r = 0; r < world->size; r++)
        server.clients[r] = -1;
    ls_group *group = NULL;
    const ls_status status = welcome(&server, &group);
    if (status == LS_ERR_PEER_DEAD)
        admit_latecomers(&server);
    send_answers(&server, status, -1);
    clean_up(&server);
    if (status != LS_OK)
        ls_group_close(&group);
    else
        *out = group;
    return status;
}

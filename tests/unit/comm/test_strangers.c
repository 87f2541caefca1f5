/*
 * A rendezvous with a process that is not a rank: packets that are too long,
 * too many descriptors, and answers that no rank gives. The stranger is a
 * thread.
 */
#include "testing.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/bootstrap/environment.h"
#include "comm/bootstrap/rendezvous.h"
#include "comm/bootstrap/socket.h"
#include "ranks.h"

/* ---- packets ------------------------------------------------------------- */

static void a_packet_that_is_too_long_is_none(void **state)
{
    int pair[2];
    char sent[100] = {0}, got[60];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    assert_int_equal(lsi_send_packet(pair[0], sent, sizeof(sent), -1), 0);
    assert_int_equal(lsi_receive_packet(pair[1], got, sizeof(got), NULL,
                                        lsi_deadline_in(10)),
                     -1);
    assert_int_equal(errno, EPROTO);
    assert_int_equal(lsi_send_packet(pair[0], sent, sizeof(got), -1), 0);
    assert_int_equal(lsi_receive_packet(pair[1], got, sizeof(got), NULL,
                                        lsi_deadline_in(10)),
                     1);
    close(pair[0]);
    close(pair[1]);
}

static void send_descriptors(int fd, char *data, size_t bytes,
                             const int descriptors[2])
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } room = {0};
    struct iovec part = {data, bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = room.bytes,
                             .msg_controllen = sizeof(room.bytes)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(header), descriptors, 2 * sizeof(int));
    assert_int_equal(sendmsg(fd, &message, 0), bytes);
}

static void descriptors_nobody_wants_are_closed(void **state)
{
    int pair[2], came = -1;
    char data[8] = {0};
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    send_descriptors(pair[0], data, sizeof(data), (const int[]){0, 1});
    assert_int_equal(lsi_receive_packet(pair[1], data, sizeof(data), &came,
                                        lsi_deadline_in(10)),
                     1);
    assert_true(came >= 0);
    assert_int_equal(fcntl(came + 1, F_GETFD), -1); /* where the other was */
    close(came);
    close(pair[0]);
    close(pair[1]);
}

/* ---- who claims to be rank 0 --------------------------------------------- */

typedef struct stranger {
    char name[64]; /* of the meeting point */
    int listener;
    lsi_answer answer;
    lsi_hello hellos[2];
} stranger;

static void *answer_one(void *context)
{
    const stranger *s = context;
    lsi_hello hello;
    const int fd = accept(s->listener, NULL, NULL);
    CHECK(fd >= 0);
    CHECK(lsi_receive_packet(fd, &hello, sizeof(hello), NULL,
                             lsi_deadline_in(30)) == 1);
    CHECK(lsi_send_packet(fd, &s->answer, sizeof(s->answer), -1) == 0);
    close(fd);
    return NULL;
}

static lsi_world world_of_two(int rank)
{
    lsi_world world = {
        .rank = rank, .size = 2, .local_rank = rank, .local_size = 2};
    snprintf(world.name, sizeof(world.name), "lockstep-strangers-%d",
             (int)getpid());
    return world;
}

static void check_answer(lsi_answer answer, ls_status status, const char *text)
{
    const lsi_world world = world_of_two(1);
    stranger s = {.answer = answer};
    ls_group *group = NULL;
    pthread_t thread;
    s.listener = lsi_listen(world.name, 1);
    assert_true(s.listener >= 0);
    assert_int_equal(pthread_create(&thread, NULL, answer_one, &s), 0);
    const ls_status got = lsi_rendezvous(&world, 30, &group);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(s.listener);
    assert_error(got, status, text);
    assert_null(group);
}

static void answers_of_no_rank_are_refused(void **state)
{
    const lsi_answer nothing = {.magic = LSI_RENDEZVOUS_MAGIC};
    lsi_answer answer = nothing;
    (void)state;
    check_answer(nothing, LS_ERR_SYSTEM, "does not understand");
    check_answer((lsi_answer){.magic = 1}, LS_ERR_SYSTEM,
                 "does not understand");
    answer.status = LS_ERR_IO;
    check_answer(answer, LS_ERR_IO,
                 "rank 0 failed, but did not send the reason");
    memcpy(answer.text, "it is late", sizeof("it is late"));
    check_answer(answer, LS_ERR_IO, "it is late");
    answer.status = 77;
    check_answer(answer, LS_ERR_SYSTEM, "it is late");
    answer.status = -77;
    check_answer(answer, LS_ERR_SYSTEM, "it is late");
}

/* ---- who claims to be a rank --------------------------------------------- */

static void *knock(void *context)
{
    const stranger *s = context;
    lsi_answer answer;
    int fd, memfd = -1;
    while ((fd = lsi_connect(s->name)) < 0)
        sched_yield();
    CHECK(lsi_send_packet(fd, &s->hellos[0], sizeof(lsi_hello), -1) == 0);
    CHECK(lsi_receive_packet(fd, &answer, sizeof(answer), &memfd,
                             lsi_deadline_in(30)) == 1);
    close(memfd);
    CHECK(lsi_send_packet(fd, &s->hellos[1], sizeof(lsi_hello), -1) == 0);
    CHECK(lsi_receive_packet(fd, &answer, sizeof(answer), &memfd,
                             lsi_deadline_in(30)) == 1);
    close(fd);
    return NULL;
}

/* The second hello is what a rank says when it has opened its group. */
static void check_hello(lsi_hello second, ls_status status, const char *text)
{
    const lsi_world world = world_of_two(0);
    stranger s = {.hellos = {{LSI_RENDEZVOUS_MAGIC, 1, 2, 5, LS_OK}, second}};
    ls_group *group = NULL;
    pthread_t thread;
    memcpy(s.name, world.name, sizeof(s.name));
    assert_int_equal(pthread_create(&thread, NULL, knock, &s), 0);
    const ls_status got = lsi_rendezvous(&world, 30, &group);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_error(got, status, text);
    assert_null(group);
}

static void hellos_of_no_rank_are_refused(void **state)
{
    lsi_hello hello = {LSI_RENDEZVOUS_MAGIC, 1, 2, 5, LS_ERR_MEMORY};
    (void)state;
    check_hello(hello, LS_ERR_MEMORY, "rank 1 could not open its group");
    hello.status = 1;
    check_hello(hello, LS_ERR_SYSTEM, "rank 1 could not open its group");
    hello.status = -1000;
    check_hello(hello, LS_ERR_SYSTEM, "rank 1 could not open its group");
    hello = (lsi_hello){7, 1, 2, 5, LS_OK};
    check_hello(hello, LS_ERR_SYSTEM,
                "rank 1 sent a message that rank 0 does not understand");
    hello = (lsi_hello){LSI_RENDEZVOUS_MAGIC, 0, 2, 5, LS_OK};
    check_hello(hello, LS_ERR_SYSTEM,
                "rank 1 sent a message that rank 0 does not understand");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packet_that_is_too_long_is_none),
        cmocka_unit_test(descriptors_nobody_wants_are_closed),
        cmocka_unit_test(answers_of_no_rank_are_refused),
        cmocka_unit_test(hellos_of_no_rank_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

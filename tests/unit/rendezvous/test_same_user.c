/*
 * An endpoint without a secret is for the processes of one user.
 */
#include "testing.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/rendezvous/client.h"
#include "comm/rendezvous/server.h"
#include "lockstep/lockstep.h"

enum { OTHER = 65534 };

typedef struct service {
    pid_t pid;
    int port;
    char endpoint[64];
} service;

static int serve(uid_t user, int ready)
{
    lsi_endpoint e = {"127.0.0.1", 0};
    const lsi_store_owner owner = {NULL, NULL, NULL};
    lsi_store_server *server;
    lsi_store_refusal why;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (setresuid(user, user, user) != 0 ||
        lsi_store_serve(&e, NULL, 5, &owner, &server, &why) != LS_OK)
        return 1;
    const int port = lsi_store_server_port(server);
    struct pollfd polled = {.fd = lsi_store_server_fd(server),
                            .events = POLLIN};
    if (write(ready, &port, sizeof(port)) != sizeof(port))
        return 1;
    while (poll(&polled, 1, -1) >= 0)
        lsi_store_server_step(server);
    return 1;
}

/* A server of that user, in a separate process. */
static void start(service *s, uid_t user)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0)
        _exit(serve(user, ready[1]));
    close(ready[1]);
    assert_int_equal(read(ready[0], &s->port, sizeof(s->port)),
                     sizeof(s->port));
    close(ready[0]);
    snprintf(s->endpoint, sizeof(s->endpoint), "127.0.0.1:%d", s->port);
}

static void stop(const service *s)
{
    kill(s->pid, SIGKILL);
    assert_int_equal(waitpid(s->pid, NULL, 0), s->pid);
}

/* Whether a client of that user is served; else the error has this part. */
static bool is_served(const service *s, uid_t user, const char *part)
{
    int status;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        ls_store store;
        if (setresuid(user, user, user) != 0)
            _exit(1);
        if (lsi_store_connect(s->endpoint, NULL, 5, &store) == LS_OK)
            _exit(0);
        _exit(strstr(ls_last_error(), part) != NULL ? 2 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 1);
    return WEXITSTATUS(status) == 0;
}

static void need_users(void)
{
    if (geteuid() == 0 && access("/proc/net/tcp", R_OK) == 0)
        return;
    print_message("skipped: needs root and /proc/net/tcp\n");
    skip();
}

static void test_who_is_served(void **state)
{
    (void)state;
    service s;
    need_users();
    start(&s, 0);
    assert_true(is_served(&s, 0, ""));
    assert_false(is_served(&s, OTHER,
                           "the other process belongs to user 65534, but this "
                           "job belongs to user 0"));
    stop(&s);
    /* A client does not believe another user's server either. */
    start(&s, OTHER);
    assert_true(is_served(&s, OTHER, ""));
    assert_false(is_served(&s, 0, "the other process belongs to user 65534"));
    stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

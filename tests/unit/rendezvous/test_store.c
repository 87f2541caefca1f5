/*
 * The server in a thread, clients in others: values, waiting, secrets,
 * messages, strangers that say anything, too much or nothing.
 */
#include "testing.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/handshake.h"
#include "comm/rendezvous/hmac.h"
#include "comm/rendezvous/server.h"
#include "lockstep/lockstep.h"

#define SECRET "a secret of the tests"

/* Seconds, also for a busy machine. */
enum { LONG = 60 };

typedef struct service {
    lsi_store_server *server;
    pthread_t thread;
    int stop;
    char endpoint[64];
    int messages, gone; /* counted by the server's thread */
} service;

static void hear(void *context, int peer, const void *data, size_t bytes)
{
    service *const s = context;
    s->messages++;
    if (bytes == 4 && memcmp(data, "away", 4) == 0)
        lsi_store_server_refuse(s->server, peer, "not wanted here");
    else
        lsi_store_server_send(s->server, peer, data, bytes);
}

static void miss(void *context, int peer, const char *why)
{
    (void)peer;
    (void)why;
    ((service *)context)->gone++;
}

static void *serve(void *argument)
{
    service *const s = argument;
    struct pollfd polled[2] = {
        {.fd = lsi_store_server_fd(s->server), .events = POLLIN},
        {.fd = s->stop, .events = POLLIN}};
    while (poll(polled, 2, -1) >= 0 && polled[1].revents == 0)
        lsi_store_server_step(s->server);
    return NULL;
}

static void start(service *s, const char *secret)
{
    lsi_endpoint e = {"127.0.0.1", 0};
    const lsi_store_owner owner = {s, hear, miss};
    lsi_store_refusal why;
    *s = (service){.stop = eventfd(0, EFD_CLOEXEC)};
    assert_ok(lsi_store_serve(&e, secret, LONG, &owner, &s->server, &why));
    snprintf(s->endpoint, sizeof(s->endpoint), "127.0.0.1:%d",
             lsi_store_server_port(s->server));
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void stop(service *s)
{
    assert_int_equal(eventfd_write(s->stop, 1), 0);
    pthread_join(s->thread, NULL);
    lsi_store_server_close(s->server);
    close(s->stop);
}

/* ---- values ----------------------------------------------------------- */

static void test_values(void **state)
{
    (void)state;
    service s;
    ls_store a, b;
    static char big[LSI_STORE_VALUE_BYTES], got[LSI_STORE_VALUE_BYTES];
    size_t bytes = sizeof(got);
    start(&s, NULL);
    assert_ok(lsi_store_connect(s.endpoint, NULL, LONG, &a));
    assert_ok(lsi_store_connect(s.endpoint, NULL, LONG, &b));
    memset(big, 'x', sizeof(big));
    assert_ok(a.set(a.context, "big", big, sizeof(big)));
    assert_ok(b.get(b.context, "big", got, &bytes, LONG));
    assert_int_equal(bytes, sizeof(big));
    assert_memory_equal(got, big, sizeof(big));
    assert_ok(a.set(a.context, "big", "", 0));
    assert_ok(b.get(b.context, "big", got, &bytes, LONG));
    assert_int_equal(bytes, 0);
    assert_ok(a.set(a.context, "word", "hello", 5));
    bytes = 4;
    assert_error(b.get(b.context, "word", got, &bytes, LONG), LS_ERR_ARGUMENT,
                 "5 bytes, but the buffer has room for 4");
    bytes = 5;
    assert_ok(b.get(b.context, "word", got, &bytes, 0));
    assert_memory_equal(got, "hello", 5);
    assert_error(b.get(b.context, "nothing", got, &bytes, 0.05), LS_ERR_TIMEOUT,
                 "key 'nothing' was not set within 0.05 s");
    assert_error(a.set(a.context, "a key", "", 0), LS_ERR_ARGUMENT,
                 "without blanks");
    assert_error(a.set(a.context, "", "", 0), LS_ERR_ARGUMENT, "0 bytes");
    assert_error(a.set(a.context, "k", big, sizeof(big) + 1), LS_ERR_ARGUMENT,
                 "65537 bytes");
    lsi_store_disconnect(&a);
    lsi_store_disconnect(&b);
    lsi_store_disconnect(&b);
    stop(&s);
}

/* ---- many at once ----------------------------------------------------- */

enum { RANKS = 24, ROUNDS = 5 };

typedef struct rank {
    pthread_t thread;
    const service *s;
    int number;
    atomic_bool *failed;
} rank;

/* An all-gather, as ranks do it. */
static ls_status gather(const rank *r)
{
    char key[32];
    ls_store store;
    LS_TRY(lsi_store_connect(r->s->endpoint, SECRET, 20, &store));
    ls_status status = LS_OK;
    for (int round = 0; round < ROUNDS && status == LS_OK; round++) {
        const int own = 1000 * round + r->number;
        snprintf(key, sizeof(key), "%d/%d", round, r->number);
        status = store.set(store.context, key, &own, sizeof(own));
        for (int i = 0; i < RANKS && status == LS_OK; i++) {
            int got = -1;
            size_t bytes = sizeof(got);
            snprintf(key, sizeof(key), "%d/%d", round, i);
            status = store.get(store.context, key, &got, &bytes, 20);
            if (status == LS_OK && got != 1000 * round + i)
                status = lsi_fail(LS_ERR_FORMAT, "wrong value");
        }
    }
    lsi_store_disconnect(&store);
    return status;
}

static void *run_rank(void *argument)
{
    const rank *const r = argument;
    if (gather(r) != LS_OK) {
        fprintf(stderr, "rank %d: %s\n", r->number, ls_last_error());
        atomic_store(r->failed, true);
    }
    return NULL;
}

static void test_gather(void **state)
{
    (void)state;
    service s;
    rank ranks[RANKS];
    atomic_bool failed = false;
    if (!lsi_hmac_is_there())
        skip();
    start(&s, SECRET);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (rank){.s = &s, .number = i, .failed = &failed};
        assert_int_equal(
            pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(ranks[i].thread, NULL);
    assert_false(failed);
    stop(&s);
}

/* ---- secrets ---------------------------------------------------------- */

static void test_secrets(void **state)
{
    (void)state;
    service s;
    ls_store store;
    if (!lsi_hmac_is_there())
        skip();
    start(&s, SECRET);
    assert_error(
        lsi_store_connect(s.endpoint, "another secret of it", LONG, &store),
        LS_ERR_MISMATCH, "the secrets differ");
    assert_error(lsi_store_connect(s.endpoint, NULL, LONG, &store),
                 LS_ERR_MISMATCH, "asks for a secret: set the same secret");
    assert_ok(lsi_store_connect(s.endpoint, SECRET, LONG, &store));
    lsi_store_disconnect(&store);
    stop(&s);
    start(&s, NULL);
    assert_error(lsi_store_connect(s.endpoint, SECRET, LONG, &store),
                 LS_ERR_MISMATCH, "has a secret, but the endpoint does not");
    stop(&s);
    assert_error(lsi_store_connect("192.0.2.1:9", NULL, LONG, &store),
                 LS_ERR_MISMATCH, "other machines can reach the endpoint");
}

static void test_serving(void **state)
{
    (void)state;
    lsi_store_server *server;
    lsi_store_refusal why;
    const lsi_store_owner owner = {NULL, NULL, NULL};
    lsi_endpoint elsewhere = {"192.0.2.1", 29400};
    service s;
    assert_error(lsi_store_serve(&elsewhere, NULL, 5, &owner, &server, &why),
                 LS_ERR_ARGUMENT, "need a secret");
    assert_int_equal(why, LSI_STORE_FAILED);
    assert_error(lsi_store_serve(&elsewhere, SECRET, 5, &owner, &server, &why),
                 LS_ERR_ARGUMENT,
                 "192.0.2.1:29400 is not an address of this host");
    assert_int_equal(why, LSI_STORE_ELSEWHERE);
    start(&s, NULL);
    lsi_endpoint busy = {"127.0.0.1", lsi_store_server_port(s.server)};
    assert_error(lsi_store_serve(&busy, NULL, 5, &owner, &server, &why),
                 LS_ERR_SYSTEM, "is in use");
    assert_int_equal(why, LSI_STORE_BUSY);
    stop(&s);
    ls_store store;
    assert_error(lsi_store_connect(s.endpoint, NULL, LONG, &store),
                 LS_ERR_PEER_DEAD, "Connection refused");
}

/* A server that goes while somebody waits. */
static void *leave(void *argument)
{
    stop(argument);
    return NULL;
}

static void test_server_goes(void **state)
{
    (void)state;
    service s;
    ls_store store;
    pthread_t thread;
    char byte;
    size_t bytes = 1;
    start(&s, NULL);
    assert_ok(lsi_store_connect(s.endpoint, NULL, LONG, &store));
    assert_int_equal(pthread_create(&thread, NULL, leave, &s), 0);
    assert_error(store.get(store.context, "never", &byte, &bytes, 0),
                 LS_ERR_PEER_DEAD, "the rendezvous at 127.0.0.1:");
    pthread_join(thread, NULL);
    lsi_store_disconnect(&store);
}

/* ---- strangers -------------------------------------------------------- */

/* From an address of this machine. */
static int dial_from(const service *s, uint32_t own)
{
    const struct sockaddr_in from = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(own)};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons((uint16_t)lsi_store_server_port(s->server));
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof(from)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static int dial(const service *s)
{
    return dial_from(s, INADDR_LOOPBACK);
}

/* Whether the server ends the connection within that number of milliseconds. */
static bool ends_within(int fd, int ms)
{
    char got[512];
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    while (poll(&polled, 1, ms) > 0) {
        if (recv(fd, got, sizeof(got), 0) <= 0)
            return true;
    }
    return false;
}

/*
 * Whether the server ends a connection that sends this long before one that
 * says nothing. It has five tries, as the machine may be busy.
 */
static bool ends_at_once(const service *s, const void *sent, size_t bytes)
{
    bool ends = false;
    for (int try = 0; try < 5 && !ends; try++) {
        const int fd = dial(s);
        assert_true(send(fd, sent, bytes, MSG_NOSIGNAL) > 0);
        ends = ends_within(fd, 2000);
        close(fd);
    }
    return ends;
}

enum { MANY = 300, TRIES = 5 };

/*
 * Many that say nothing: the first makes room. False if the last has ended,
 * too, as those do who say nothing for some seconds; then the machine is busy.
 */
static bool dial_many(const service *s, int fds[MANY])
{
    for (int i = 0; i < MANY; i++)
        fds[i] = dial(s);
    assert_true(ends_within(fds[0], 60000));
    return !ends_within(fds[MANY - 1], 0);
}

static void hang_up(const int fds[MANY])
{
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
}

static void test_strangers(void **state)
{
    (void)state;
    static const char *const words[] = {
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02",
        "SSH-2.0-OpenSSH_9.2\r\n", "LsR2xxxxxxxxxxxx"};
    service s;
    ls_store store;
    int fds[MANY];
    bool made_room = false;
    unsigned char frame[LSI_FRAME_HEADER_BYTES + 1 + 8];
    if (!lsi_hmac_is_there())
        skip();
    start(&s, SECRET);
    for (size_t i = 0; i < TEST_COUNT(words); i++)
        assert_true(ends_at_once(&s, words[i], strlen(words[i])));
    /* A request before the handshake, and a length beyond what is allowed. */
    (void)lsi_frame_header(LSI_FRAME_GET, "k", 8, frame);
    memcpy(frame + LSI_FRAME_HEADER_BYTES, "k12345678", 9);
    for (int i = 0; i < 2; i++) {
        frame[9] = i == 0 ? 0 : 0xff;
        assert_true(ends_at_once(&s, frame, sizeof(frame)));
    }
    /* Many that say nothing do not keep others away. */
    for (int try = 0; try < TRIES && !made_room; try++) {
        made_room = dial_many(&s, fds);
        assert_ok(lsi_store_connect(s.endpoint, SECRET, LONG, &store));
        assert_true(ends_within(fds[MANY - 1], 60000));
        assert_ok(store.set(store.context, "k", "v", 1));
        hang_up(fds);
        lsi_store_disconnect(&store);
    }
    assert_true(made_room);
    stop(&s);
}

static ls_status try_to_greet(lsi_link *link, const char *secret);

/* A slow host is not thrown out by one that connects without end. */
static void test_strangers_of_one_address(void **state)
{
    (void)state;
    service s;
    lsi_link slow;
    bool greeted = false;
    int fds[MANY];
    if (!lsi_hmac_is_there())
        skip();
    start(&s, SECRET);
    for (int try = 0; try < TRIES && !greeted; try++) {
        lsi_link_open(&slow, dial_from(&s, INADDR_LOOPBACK + 1), LONG);
        greeted = dial_many(&s, fds) && try_to_greet(&slow, SECRET) == LS_OK;
        lsi_link_close(&slow);
        hang_up(fds);
    }
    assert_true(greeted);
    stop(&s);
}

/* ---- messages --------------------------------------------------------- */

static ls_status try_to_await(lsi_link *link, lsi_frame *frame)
{
    bool got = false;
    ls_status received = LS_OK;
    struct pollfd polled = {.fd = link->fd, .events = POLLIN};
    for (;;) {
        LS_TRY(lsi_link_next(link, frame, &got));
        if (got)
            return LS_OK;
        LS_TRY(received); /* its end may come with its last frame */
        assert_int_equal(poll(&polled, 1, 60000), 1);
        received = lsi_link_receive(link);
    }
}

static void await(lsi_link *link, lsi_frame *frame)
{
    assert_ok(try_to_await(link, frame));
}

static ls_status try_to_greet(lsi_link *link, const char *secret)
{
    lsi_handshake shake;
    lsi_frame frame;
    LS_TRY(lsi_handshake_begin(&shake, false, secret, link));
    while (!shake.is_done) {
        LS_TRY(try_to_await(link, &frame));
        LS_TRY(lsi_handshake_handle(&shake, link, &frame));
    }
    return LS_OK;
}

static void greet(lsi_link *link, const char *secret)
{
    assert_ok(try_to_greet(link, secret));
}

static void test_messages(void **state)
{
    (void)state;
    service s;
    lsi_link link;
    lsi_frame frame;
    if (!lsi_hmac_is_there())
        skip();
    start(&s, SECRET);
    for (int i = 0; i < 2; i++) {
        lsi_link_open(&link, dial(&s), LONG);
        greet(&link, SECRET);
        assert_ok(lsi_link_send(&link, LSI_FRAME_MESSAGE, "", "hello", 5));
        await(&link, &frame);
        assert_int_equal(frame.kind, LSI_FRAME_MESSAGE);
        assert_memory_equal(frame.data, "hello", 5);
        if (i == 1) {
            assert_ok(lsi_link_send(&link, LSI_FRAME_MESSAGE, "", "away", 4));
            await(&link, &frame);
            assert_int_equal(frame.kind, LSI_FRAME_REFUSED);
            assert_memory_equal(frame.data, "not wanted here", 15);
        }
        assert_true(i == 0 || ends_within(link.fd, 60000));
        lsi_link_close(&link);
    }
    /* The end of a connection comes before what another one says later. */
    ls_store store;
    assert_ok(lsi_store_connect(s.endpoint, SECRET, LONG, &store));
    assert_ok(store.set(store.context, "k", "v", 1));
    lsi_store_disconnect(&store);
    stop(&s);
    assert_int_equal(s.messages, 3);
    assert_int_equal(s.gone, 1);
}

/* Requests that come while their peer waits: each is answered, in order. */
static void test_requests_behind_a_wait(void **state)
{
    (void)state;
    enum { CHAIN = 3 };
    service s;
    ls_store store;
    lsi_link links[CHAIN];
    lsi_frame frame;
    char key[16];
    unsigned char forever[8];
    start(&s, NULL);
    lsi_frame_put_number(forever, 0);
    for (int i = 0; i < CHAIN; i++) {
        lsi_link *const link = &links[i];
        lsi_link_open(link, dial(&s), LONG);
        greet(link, NULL);
        /* In one packet: it waits for one key, and then sets the next. */
        unsigned char both[128];
        snprintf(key, sizeof(key), "k%d", i);
        size_t n = lsi_frame_header(LSI_FRAME_GET, key, 8, both);
        memcpy(both + LSI_FRAME_HEADER_BYTES, key, strlen(key));
        memcpy(both + n - 8, forever, 8);
        snprintf(key, sizeof(key), "k%d", i + 1);
        const size_t more = lsi_frame_header(LSI_FRAME_SET, key, 1, both + n);
        memcpy(both + n + LSI_FRAME_HEADER_BYTES, key, strlen(key));
        both[n + more - 1] = 'x';
        n += more;
        assert_int_equal(send(link->fd, both, n, MSG_NOSIGNAL), n);
    }
    assert_ok(lsi_store_connect(s.endpoint, NULL, LONG, &store));
    assert_ok(store.set(store.context, "k0", "x", 1));
    for (int i = 0; i < CHAIN; i++) {
        await(&links[i], &frame);
        assert_int_equal(frame.kind, LSI_FRAME_VALUE);
        await(&links[i], &frame);
        assert_int_equal(frame.kind, LSI_FRAME_DONE);
        lsi_link_close(&links[i]);
    }
    lsi_store_disconnect(&store);
    stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_serving),
        cmocka_unit_test(test_server_goes),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_strangers_of_one_address),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_requests_behind_a_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

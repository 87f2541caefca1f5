/*
 * Writing without waiting for who reads.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "launch/output.h"
#include "testing.h"

enum { PIECE = 1000 };

static void await_change(int wake)
{
    struct pollfd polled = {.fd = wake, .events = POLLIN};
    uint64_t changes;
    assert_int_equal(poll(&polled, 1, 30000), 1);
    assert_int_equal(read(wake, &changes, sizeof(changes)), 8);
}

/* Byte i of all that is put. */
static char byte_at(size_t i)
{
    return i % 61 == 60 ? '\n' : (char)('a' + (int)(i % 26));
}

static bool put_piece(lsi_sink *sink, size_t begin)
{
    char piece[PIECE];
    for (size_t i = 0; i < PIECE; i++)
        piece[i] = byte_at(begin + i);
    return lsi_sink_put(sink, piece, PIECE);
}

static size_t hear(int fd, size_t begin)
{
    char data[4096];
    const ssize_t bytes = read(fd, data, sizeof(data));
    for (ssize_t i = 0; i < bytes; i++)
        assert_int_equal(data[i], byte_at(begin + (size_t)i));
    return bytes > 0 ? (size_t)bytes : 0;
}

/* Ten times the buffer, through a pipe that blocks or does not. */
static void pass_all(int flags)
{
    const size_t all = (size_t)10 * LSI_SINK_BYTES / PIECE * PIECE;
    const int wake = eventfd(0, EFD_NONBLOCK);
    int ends[2];
    lsi_sink *sink;
    assert_int_equal(pipe(ends), 0);
    fcntl(ends[1], F_SETFL, flags);
    assert_ok(lsi_sink_new(ends[1], wake, &sink));
    size_t put = 0;
    size_t heard = 0;
    while (heard < all) {
        while (put < all && put_piece(sink, put))
            put += PIECE;
        heard += hear(ends[0], heard);
    }
    while (lsi_sink_get_state(sink).waiting > 0) /* it has just been written */
        await_change(wake);
    const lsi_sink_state end = lsi_sink_get_state(sink);
    assert_int_equal(end.written, all);
    assert_int_equal(end.error, 0);
    assert_false(end.gone);
    lsi_sink_free(sink);
    close(ends[0]);
    close(ends[1]);
    close(wake);
}

static void all_arrives_in_order(void **state)
{
    (void)state;
    pass_all(0);
    pass_all(O_NONBLOCK);
}

static void a_full_buffer_takes_nothing_and_is_given_up(void **state)
{
    (void)state;
    int ends[2];
    lsi_sink *sink;
    assert_int_equal(pipe(ends), 0);
    assert_ok(lsi_sink_new(ends[1], -1, &sink));
    struct pollfd writable = {.fd = ends[1], .events = POLLOUT};
    size_t put = 0;
    bool taken = true;
    while (taken || poll(&writable, 1, 0) == 1) { /* nor does the pipe */
        taken = put_piece(sink, put);
        put += taken ? PIECE : 0;
    }
    assert_true(lsi_sink_get_state(sink).waiting > LSI_SINK_BYTES / 2);
    lsi_sink_give_up(sink);
    assert_int_equal(lsi_sink_get_state(sink).waiting, 0);
    assert_true(lsi_sink_get_state(sink).gone);
    assert_false(lsi_sink_put(sink, "x", 1));
    lsi_sink_free(sink);
    size_t heard = 0;
    while (heard < 4096) /* what the pipe holds is as it was put */
        heard += hear(ends[0], heard);
    close(ends[0]);
    /* The other end stays: the writer may be using it. */
}

static void a_reader_that_is_gone(void **state)
{
    (void)state;
    const int wake = eventfd(0, EFD_NONBLOCK);
    int ends[2];
    lsi_sink *sink;
    assert_int_equal(pipe(ends), 0);
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    assert_ok(lsi_sink_new(ends[1], wake, &sink));
    assert_true(put_piece(sink, 0));
    await_change(wake);
    assert_true(lsi_sink_get_state(sink).gone);
    assert_int_equal(lsi_sink_get_state(sink).error, 0);
    assert_false(put_piece(sink, 0));
    lsi_sink_free(sink);
    close(ends[1]);
    close(wake);
}

/* A full disk costs what is written to it, and the next may fit again. */
static void an_error_is_no_end(void **state)
{
    (void)state;
    const int wake = eventfd(0, EFD_NONBLOCK);
    const int full = open("/dev/full", O_WRONLY);
    lsi_sink *sink;
    assert_true(full >= 0);
    assert_ok(lsi_sink_new(full, wake, &sink));
    for (int i = 0; i < 2; i++) {
        assert_true(put_piece(sink, 0));
        while (lsi_sink_get_state(sink).waiting > 0)
            await_change(wake);
        assert_int_equal(lsi_sink_get_state(sink).error, ENOSPC);
        assert_int_equal(lsi_sink_get_state(sink).written, 0);
        assert_false(lsi_sink_get_state(sink).gone);
    }
    lsi_sink_free(sink);
    close(full);
    close(wake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_arrives_in_order),
        cmocka_unit_test(a_full_buffer_takes_nothing_and_is_given_up),
        cmocka_unit_test(a_reader_that_is_gone),
        cmocka_unit_test(an_error_is_no_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

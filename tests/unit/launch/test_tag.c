/*
 * Lines with their rank, however the bytes arrive and are read.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "launch/tag.h"
#include "testing.h"

/* A tag whose lines go into a pipe that can be read. */
typedef struct setup {
    lsi_tag tag;
    lsi_sink *sink;
    int wake;
    int in;       /* the rank's end */
    int lines[2]; /* where lines arrive */
} setup;

static setup *open_setup(void)
{
    setup *s = malloc(sizeof(*s));
    assert_int_equal(pipe(s->lines), 0);
    s->wake = eventfd(0, EFD_NONBLOCK);
    assert_true(s->wake >= 0);
    assert_ok(lsi_sink_new(s->lines[1], s->wake, &s->sink));
    const lsi_tag_target target = {
        .sink = s->sink, .style = LSI_TAG_MARKED, .log = {.fd = -1}};
    assert_ok(lsi_tag_open(&s->tag, 3, target, &s->in));
    fcntl(s->lines[0], F_SETFL, O_NONBLOCK);
    return s;
}

static void close_setup(setup *s)
{
    if (s->tag.in >= 0)
        close(s->tag.in);
    lsi_sink_free(s->sink);
    close(s->wake);
    close(s->lines[0]);
    close(s->lines[1]);
    free(s);
}

/* Waits until the sink has something to tell. */
static void await_change(setup *s)
{
    struct pollfd polled = {.fd = s->wake, .events = POLLIN};
    uint64_t changes;
    assert_int_equal(poll(&polled, 1, 30000), 1);
    assert_int_equal(read(s->wake, &changes, sizeof(changes)), 8);
}

static void flush(setup *s)
{
    while (lsi_sink_get_state(s->sink).waiting > 0)
        await_change(s);
}

static void say(setup *s, const char *text)
{
    assert_int_equal(write(s->in, text, strlen(text)), strlen(text));
    assert_true(lsi_tag_pump(&s->tag));
}

static void assert_heard(setup *s, const char *expected)
{
    char text[256] = "";
    flush(s);
    const ssize_t bytes = read(s->lines[0], text, sizeof(text) - 1);
    text[bytes > 0 ? bytes : 0] = '\0';
    assert_string_equal(text, expected);
}

static void whole_lines_only(void **state)
{
    (void)state;
    setup *s = open_setup();
    say(s, "he");
    assert_heard(s, "");
    say(s, "llo\n\nwor");
    assert_heard(s, "[3] hello\n[3] \n");
    assert_false(lsi_tag_pump(&s->tag)); /* and does not wait */
    say(s, "ld\n");
    assert_heard(s, "[3] world\n");
    say(s, "no end");
    close(s->in);
    assert_true(lsi_tag_finish(&s->tag));
    assert_heard(s, "[3] no end\n");
    assert_int_equal(s->tag.in, -1);
    close_setup(s);
}

/* A line without an end is cut instead of growing for ever. */
static void endless_line(void **state)
{
    (void)state;
    setup *s = open_setup();
    enum { BYTES = 2 * LSI_TAG_LINE_BYTES + 5 };
    char *text = malloc(BYTES);
    memset(text, 'x', BYTES);
    assert_int_equal(write(s->in, text, BYTES), BYTES);
    close(s->in);
    assert_true(lsi_tag_finish(&s->tag));
    flush(s);
    size_t lines = 0;
    size_t xs = 0;
    char c;
    while (read(s->lines[0], &c, 1) == 1) {
        lines += c == '\n';
        xs += c == 'x';
    }
    assert_int_equal(lines, 3);
    assert_int_equal(xs, BYTES);
    free(text);
    close_setup(s);
}

/* Somebody else holds the pipe open and writes nothing. */
static void a_stranger_is_not_waited_for(void **state)
{
    (void)state;
    setup *s = open_setup();
    say(s, "begun");
    assert_true(lsi_tag_finish(&s->tag));
    assert_heard(s, "[3] begun\n");
    close(s->in);
    close_setup(s);
}

/* Adds what has arrived of lines "[3] "; a read may end within one. */
static void hear_empty_lines(setup *s, size_t *bytes)
{
    char text[4096];
    ssize_t n;
    while ((n = read(s->lines[0], text, sizeof(text))) > 0)
        for (ssize_t i = 0; i < n; i++, ++*bytes)
            assert_int_equal(text[i], "[3] \n"[*bytes % 5]);
}

/*
 * While nobody reads, the pipe is not read either, so that the rank has to
 * wait; all of it arrives later. Lines that are nothing but ends grow most.
 */
static void a_reader_that_stands_still(void **state)
{
    (void)state;
    setup *s = open_setup();
    char ends[4096];
    memset(ends, '\n', sizeof(ends));
    fcntl(s->in, F_SETFL, O_NONBLOCK);
    size_t sent = 0;
    ssize_t bytes;
    while ((bytes = write(s->in, ends, sizeof(ends))) > 0 ||
           lsi_tag_pump(&s->tag))
        sent += bytes > 0 ? (size_t)bytes : 0;
    assert_int_equal(lsi_tag_to_poll(&s->tag), -1);
    assert_true(s->tag.in >= 0);
    assert_true(lsi_sink_get_state(s->sink).waiting <= LSI_SINK_BYTES);
    assert_false(lsi_tag_finish(&s->tag));
    close(s->in);
    size_t heard = 0;
    bool finished = false;
    while (!finished || lsi_sink_get_state(s->sink).waiting > 0) {
        finished = lsi_tag_finish(&s->tag);
        hear_empty_lines(s, &heard);
    }
    hear_empty_lines(s, &heard);
    assert_int_equal(heard, 5 * sent);
    close_setup(s);
}

/* When nobody reads the lines, the rank's pipe is closed. */
static void reader_gone(void **state)
{
    (void)state;
    setup *s = open_setup();
    signal(SIGPIPE, SIG_IGN);
    close(s->lines[0]);
    say(s, "a line\n");
    while (!lsi_sink_get_state(s->sink).gone)
        await_change(s);
    assert_int_equal(lsi_tag_to_poll(&s->tag), -1);
    assert_int_equal(s->tag.in, -1);
    assert_int_equal(write(s->in, "x", 1), -1);
    close(s->in);
    s->lines[0] = open("/dev/null", O_RDONLY);
    close_setup(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_lines_only),
        cmocka_unit_test(endless_line),
        cmocka_unit_test(a_stranger_is_not_waited_for),
        cmocka_unit_test(a_reader_that_stands_still),
        cmocka_unit_test(reader_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

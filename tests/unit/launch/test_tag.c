/*
 * Lines with their rank, however the bytes arrive.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "launch/tag.h"
#include "testing.h"

/* A tag whose lines go into a pipe that can be read. */
typedef struct setup {
    lsi_tag tag;
    int in;   /* the rank's end */
    int read; /* where lines arrive */
} setup;

static setup *open_setup(void)
{
    setup *s = malloc(sizeof(*s));
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_ok(lsi_tag_open(&s->tag, 3, ends[1], &s->in));
    s->read = ends[0];
    return s;
}

static void close_setup(setup *s)
{
    if (s->tag.in >= 0)
        close(s->tag.in);
    close(s->tag.out);
    close(s->read);
    free(s);
}

static void say(setup *s, const char *text)
{
    assert_int_equal(write(s->in, text, strlen(text)), strlen(text));
    lsi_tag_pump(&s->tag);
}

static void assert_heard(setup *s, const char *expected)
{
    char text[256] = "";
    fcntl(s->read, F_SETFL, O_NONBLOCK);
    const ssize_t bytes = read(s->read, text, sizeof(text) - 1);
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
    say(s, "ld\n");
    assert_heard(s, "[3] world\n");
    say(s, "no end");
    close(s->in);
    lsi_tag_drain(&s->tag);
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
    lsi_tag_drain(&s->tag);
    size_t lines = 0;
    size_t xs = 0;
    char c;
    fcntl(s->read, F_SETFL, O_NONBLOCK);
    while (read(s->read, &c, 1) == 1) {
        lines += c == '\n';
        xs += c == 'x';
    }
    assert_int_equal(lines, 3);
    assert_int_equal(xs, BYTES);
    free(text);
    close_setup(s);
}

/* When nobody reads the lines, the rank's pipe is closed. */
static void reader_gone(void **state)
{
    (void)state;
    setup *s = open_setup();
    signal(SIGPIPE, SIG_IGN);
    close(s->read);
    say(s, "a line\n");
    assert_int_equal(s->tag.in, -1);
    assert_int_equal(write(s->in, "x", 1), -1);
    close(s->in);
    s->read = open("/dev/null", O_RDONLY);
    close_setup(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_lines_only),
        cmocka_unit_test(endless_line),
        cmocka_unit_test(reader_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

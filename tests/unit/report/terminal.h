/*
 * A terminal of a width for what is printed to it.
 */
#ifndef LS_TESTS_REPORT_TERMINAL_H
#define LS_TESTS_REPORT_TERMINAL_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "testing.h"

typedef struct terminal {
    int master;
    FILE *stream;
} terminal;

static inline terminal terminal_open(int columns)
{
    const struct winsize size = {.ws_row = 24,
                                 .ws_col = (unsigned short)columns};
    terminal t = {.master = posix_openpt(O_RDWR | O_NOCTTY)};
    assert_true(t.master >= 0);
    assert_int_equal(grantpt(t.master), 0);
    assert_int_equal(unlockpt(t.master), 0);
    assert_int_equal(ioctl(t.master, TIOCSWINSZ, &size), 0);
    t.stream = fopen(ptsname(t.master), "w");
    assert_non_null(t.stream);
    return t;
}

/* Reads the printed text, without the terminal's carriage returns, and closes
 * it. */
static inline void terminal_close(terminal *t, char *out, size_t bytes)
{
    size_t used = 0;
    char letter;
    assert_int_equal(fclose(t->stream), 0);
    while (used + 1 < bytes && read(t->master, &letter, 1) == 1)
        if (letter != '\r')
            out[used++] = letter;
    out[used] = '\0';
    close(t->master);
}

#endif

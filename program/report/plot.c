/*
 * Running gnuplot: the script on its standard input, the picture from its
 * standard output until that ends.
 */
#include "report/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "report/plot_colours.h"
#include "report/result.h"
#include "report/text_stream.h"

enum { MOST_SECONDS = 60, MOST_BYTES = 16 << 20, ERROR_BYTES = 512 };

/* As execvp looks for it. */
bool lsi_plot_available(void)
{
    const char *path = getenv("PATH");
    char file[4096];
    while (path != NULL && *path != '\0') {
        const size_t length = strcspn(path, ":");
        const int bytes = snprintf(file, sizeof(file), "%.*s/gnuplot",
                                   (int)length, length > 0 ? path : ".");
        if (bytes > 0 && (size_t)bytes < sizeof(file) &&
            access(file, X_OK) == 0)
            return true;
        path += length;
        path += *path == ':';
    }
    return false;
}

/* ---- the process --------------------------------------------------------- */

typedef struct drawing {
    pid_t pid;
    int script, picture[2], error; /* descriptors; -1: none */
} drawing;

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_all(drawing *d)
{
    close_one(&d->script);
    close_one(&d->picture[0]);
    close_one(&d->picture[1]);
    close_one(&d->error);
}

static ls_status open_all(drawing *d, const char *script)
{
    d->script = memfd_create("plot", MFD_CLOEXEC);
    d->error = memfd_create("plot-errors", MFD_CLOEXEC);
    if (d->script < 0 || d->error < 0 || pipe2(d->picture, O_CLOEXEC) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot draw a plot");
    LS_TRY(lsi_write_all(d->script, script, strlen(script), "a plot"));
    if (lseek(d->script, 0, SEEK_SET) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot draw a plot");
    return LS_OK;
}

static ls_status start(drawing *d)
{
    static char program[] = "gnuplot";
    char *const argv[] = {program, NULL};
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return lsi_fail(LS_ERR_MEMORY, "no memory for a plot");
    posix_spawn_file_actions_adddup2(&actions, d->script, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, d->picture[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, d->error, STDERR_FILENO);
    const int error =
        posix_spawnp(&d->pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close_one(&d->picture[1]);
    if (error == ENOENT || error == EACCES)
        return lsi_fail(LS_ERR_NOT_FOUND,
                        "plots need the program gnuplot, which is not there");
    if (error != 0) {
        errno = error;
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot run gnuplot");
    }
    return LS_OK;
}

/* Copies until it ends; false if there is too much of it, or not in time. */
static bool copy_picture(int fd, FILE *out)
{
    const double until = lsi_clock_seconds() + MOST_SECONDS;
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    char piece[1 << 14];
    size_t bytes = 0;
    for (;;) {
        const double left = until - lsi_clock_seconds();
        if (left <= 0 || bytes > MOST_BYTES)
            return false;
        const int ready = poll(&polled, 1, (int)(left * 1e3) + 1);
        const ssize_t n = ready > 0 ? read(fd, piece, sizeof(piece)) : -1;
        if (n == 0)
            return true;
        if (n > 0)
            bytes += fwrite(piece, 1, (size_t)n, out);
    }
}

/* Its first words, in one line. */
static void read_error(int fd, char text[ERROR_BYTES])
{
    const ssize_t n = pread(fd, text, ERROR_BYTES - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        const bool blank = (unsigned char)*from <= ' ';
        if (!blank || (to > text && to[-1] != ' '))
            *to++ = blank ? ' ' : *from;
    }
    *to = '\0';
}

static ls_status finish(drawing *d, bool whole)
{
    char text[ERROR_BYTES];
    int ended = 0;
    if (!whole)
        kill(d->pid, SIGKILL);
    while (waitpid(d->pid, &ended, 0) < 0 && errno == EINTR)
        continue;
    if (!whole)
        return lsi_fail(LS_ERR_TIMEOUT,
                        "gnuplot has not drawn a plot in %d seconds",
                        MOST_SECONDS);
    if (WIFEXITED(ended) && WEXITSTATUS(ended) == 0)
        return LS_OK;
    read_error(d->error, text);
    return lsi_fail(LS_ERR_SYSTEM, "gnuplot cannot draw a plot: %s", text);
}

static ls_status run_gnuplot(const char *script, char **out)
{
    drawing d = {.script = -1, .picture = {-1, -1}, .error = -1};
    lsi_text_stream text;
    ls_status status = open_all(&d, script);
    if (status == LS_OK)
        status = lsi_text_stream_open(&text);
    if (status == LS_OK) {
        status = start(&d);
        if (status == LS_OK)
            status = finish(&d, copy_picture(d.picture[0], text.file));
        status = lsi_text_stream_close(&text, status, out);
    }
    close_all(&d);
    return status;
}

/* ---- the picture --------------------------------------------------------- */

/* Ids that are the same in each of gnuplot's pictures. */
static const char *const ids[] = {"gpDot", "gpPt", "textbox", "greybox",
                                  "gnuplot_"};

/* How many bytes such an id has here; it stands in quotes or behind '#'. */
static size_t id_at(const char *text, const char *begin)
{
    if (text == begin || strchr("'\"#", text[-1]) == NULL)
        return 0;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        if (strncmp(text, ids[i], strlen(ids[i])) == 0)
            return strlen(ids[i]);
    }
    return 0;
}

static void put_picture(FILE *f, const lsi_plot *plot, const char *svg)
{
    const char *const begin = svg;
    const char *const head = strchr(svg, '>'); /* the end of <svg ...> */
    while (*svg != '\0') {
        const size_t id = id_at(svg, begin);
        if (id > 0)
            fprintf(f, "%s-", plot->name);
        for (size_t i = 0; i < id; i++)
            fputc(*svg++, f);
        if (id > 0)
            continue;
        fputc(*svg, f);
        if (svg == head)
            fputs("\n" LSI_PLOT_STYLE, f);
        svg++;
    }
}

/* An SVG with its own ids and both colours of a raw one. */
static ls_status adapt(const lsi_plot *plot, const char *raw, char **out)
{
    lsi_text_stream text;
    const char *const svg = strstr(raw, "<svg");
    if (svg == NULL)
        return lsi_fail(LS_ERR_SYSTEM, "gnuplot has drawn no SVG");
    LS_TRY(lsi_text_stream_open(&text));
    put_picture(text.file, plot, svg);
    return lsi_text_stream_close(&text, LS_OK, out);
}

ls_status lsi_plot_svg(const lsi_plot *plot, char **out)
{
    char *script = NULL, *raw = NULL;
    ls_status status = lsi_plot_script(plot, &script);
    if (status == LS_OK)
        status = run_gnuplot(script, &raw);
    if (status == LS_OK)
        status = adapt(plot, raw, out);
    free(script);
    free(raw);
    return status;
}

ls_status lsi_plot_write(const lsi_plot *plot, const char *path)
{
    char *svg = NULL;
    LS_TRY(lsi_plot_svg(plot, &svg));
    const ls_status status = lsi_result_write(path, svg, strlen(svg));
    free(svg);
    return status;
}

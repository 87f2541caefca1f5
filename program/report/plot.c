/*
 * Runs gnuplot: the script is its standard input, the picture its standard
 * output. In the script, texts are quoted and not interpreted. Data are part of
 * it, so that gnuplot needs no file.
 */
#include "report/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
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
#include "report/result.h"
#include "report/text_stream.h"

enum { MOST_SECONDS = 60, MOST_BYTES = 16 << 20, ERROR_BYTES = 512 };

/*
 * Colours that differ between light and dark pages. gnuplot writes them
 * unchanged; a CSS rule that matches them replaces them on dark pages.
 */
#define INK  "#202021"
#define GRID "#a0a0a1"

/* The colour as gnuplot's SVG spells it: for texts, and for lines. */
#define INK_FILL    "rgb(32,32,33)"
#define INK_STROKE  "rgb( 32,  32,  33)"
#define GRID_STROKE "rgb(160, 160, 161)"

/* The first, dark colour of the palette. */
#define BLUE "rgb(  0, 114, 178)"

#define STYLE                                                                  \
    "<style>@media (prefers-color-scheme:dark){"                               \
    "[fill=\"" INK_FILL "\"]{fill:#d8dee6}"                                    \
    "[stroke=\"" INK_STROKE "\"]{stroke:#d8dee6}"                              \
    "[fill=\"" BLUE "\"]{fill:#2f8fd6}"                                        \
    "[stroke=\"" BLUE "\"]{stroke:#2f8fd6}"                                    \
    "[color=\"" BLUE "\"]{color:#2f8fd6}"                                      \
    "[stroke=\"" GRID_STROKE "\"]{stroke:#4a525c}}</style>\n"

/* Searches PATH as execvp does. */
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

/* ---- the script ---------------------------------------------------------- */

/*
 * Okabe and Ito's palette, which nearly everybody can tell apart. Yellow and
 * black are left out: each would vanish on a light or a dark page.
 */
static const char *const palette[] = {"#0072b2", "#d55e00", "#009e73",
                                      "#cc79a7", "#e69f00", "#56b4e9",
                                      "#8c6d31", "#7f7f7f"};
enum { COLOURS = sizeof(palette) / sizeof(palette[0]) };

static const char *colour_of(const lsi_plot *plot, size_t i)
{
    const int wanted = plot->series[i].colour;
    return palette[(wanted > 0 ? (size_t)wanted - 1 : i) % COLOURS];
}

/* Text in single quotes; only these characters are special in it. */
static void put_text(FILE *f, const char *text)
{
    fputc('\'', f);
    for (; text != NULL && *text != '\0'; text++) {
        if (*text == '\'')
            fputc('\'', f);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, f);
    }
    fputc('\'', f);
}

/*
 * One label at each of few whole numbers; gnuplot would add labels between
 * them.
 */
static void put_whole(FILE *f, const lsi_plot *plot)
{
    enum { FEW = 10 };
    double first = INFINITY, last = -INFINITY;
    for (size_t i = 0; i < plot->n_series; i++) {
        for (size_t k = 0; k < plot->series[i].n; k++) {
            first = fmin(first, plot->series[i].x[k]);
            last = fmax(last, plot->series[i].x[k]);
        }
    }
    if (plot->x.whole && !plot->x.log && last - first <= FEW)
        fputs("set xtics 1\n", f);
}

static void put_axis(FILE *f, char axis, const lsi_plot_axis *a)
{
    if (a->label != NULL) {
        fprintf(f, "set %clabel ", axis);
        put_text(f, a->label);
        fputc('\n', f);
    }
    if (a->log)
        fprintf(f, "set logscale %c 10\n", axis);
    fprintf(f, "set format %c '%s'\n", axis, a->si && a->log ? "%.0s%c" : "%g");
    if (a->from_zero && !a->log)
        fprintf(f, "set %crange [0:*]\n", axis);
    if (a->categories == NULL)
        return;
    fprintf(f, "set %ctics (", axis);
    for (size_t i = 0; i < a->n_categories; i++) {
        fputs(i > 0 ? ", " : "", f);
        put_text(f, a->categories[i]);
        fprintf(f, " %zu", i);
    }
    /* Rows are read from the top. */
    if (axis == 'y')
        fprintf(f, ")\nset yrange [%g:-0.6]\n", (double)a->n_categories - 0.4);
    else
        fprintf(f, ")\nset xrange [-0.6:%g]\n", (double)a->n_categories - 0.4);
}

static bool fits(const lsi_plot_axis *axis, double value)
{
    return isfinite(value) && (!axis->log || value > 0);
}

/* Sum of the earlier series of this style at the point. */
static double base_of(const lsi_plot *plot, size_t series, size_t point)
{
    const lsi_plot_style style = plot->series[series].style;
    double sum = 0;
    for (size_t i = 0; plot->stacked && i < series; i++) {
        const lsi_plot_series *const s = &plot->series[i];
        if (s->style == style && point < s->n && isfinite(s->y[point]))
            sum += s->y[point];
    }
    return sum;
}

/* The bars of a category share 0.8 of its width. */
static void bar_place(const lsi_plot *plot, size_t series, double *low,
                      double *high)
{
    size_t before = 0, all = 0;
    for (size_t i = 0; i < plot->n_series; i++) {
        const bool bars = plot->series[i].style == LSI_PLOT_BARS;
        before += bars && i < series;
        all += bars;
    }
    if (plot->stacked) {
        before = 0;
        all = 1;
    }
    *low = -0.4 + 0.8 * (double)before / (double)all;
    *high = *low + 0.8 / (double)all;
}

/* A box: its middle, which gnuplot expects first, and its four sides. */
static void put_box(FILE *f, const double x[2], const double y[2])
{
    fprintf(f, "%.9g %.9g %.9g %.9g %.9g %.9g\n", (x[0] + x[1]) / 2,
            (y[0] + y[1]) / 2, x[0], x[1], y[0], y[1]);
}

static void put_point(FILE *f, const lsi_plot *plot, size_t series, size_t i)
{
    const lsi_plot_series *const s = &plot->series[series];
    const double x = s->x[i], y = s->y[i];
    const bool box = s->style == LSI_PLOT_BARS || s->style == LSI_PLOT_SPANS;
    if (!fits(&plot->x, x) || !fits(&plot->y, y)) {
        fputs(box ? "" : "\n", f); /* an empty line is a gap */
        return;
    }
    if (s->style == LSI_PLOT_SPANS) {
        put_box(f, (const double[]){x, s->x_end[i]},
                (const double[]){y - 0.4, y + 0.4});
        return;
    }
    const double base = base_of(plot, series, i);
    if (s->style == LSI_PLOT_BARS) {
        double low, high;
        bar_place(plot, series, &low, &high);
        put_box(f, (const double[]){x + low, x + high},
                (const double[]){base, base + y});
    } else if (s->style == LSI_PLOT_FILLED) {
        fprintf(f, "%.9g %.9g %.9g\n", x, base, base + y);
    } else {
        fprintf(f, "%.9g %.9g\n", x, y);
    }
}

static void put_style(FILE *f, const lsi_plot *plot, size_t i)
{
    static const char *const how[] = {
        [LSI_PLOT_LINES] = "lines",
        [LSI_PLOT_LINES_POINTS] = "linespoints",
        [LSI_PLOT_FILLED] = "filledcurves",
        [LSI_PLOT_BARS] = "boxxyerror fill solid 1 noborder",
        [LSI_PLOT_SPANS] = "boxxyerror fill solid 1 noborder",
    };
    enum { ROUND = 7 }; /* gnuplot's number of a filled circle */
    const lsi_plot_series *const s = &plot->series[i];
    fprintf(f, " with %s lc rgb '%s'", how[s->style], colour_of(plot, i));
    if (s->style == LSI_PLOT_LINES_POINTS)
        fprintf(f, " pt %d ps 0.5", ROUND);
    if (s->dashed)
        fputs(" dt 2", f);
    if (s->name == NULL) {
        fputs(" notitle", f);
    } else {
        fputs(" title ", f);
        put_text(f, s->name);
    }
}

static void put_head(FILE *f, const lsi_plot *plot)
{
    enum { WIDTH = 760, HEIGHT = 400 };
    fprintf(f,
            "set terminal svg size %d,%d dynamic noenhanced font "
            "'sans-serif,14' linewidth 1.5 dashlength 1.5",
            WIDTH, plot->height > 0 ? plot->height : HEIGHT);
    fputs("\nset encoding utf8\n"
          "set border 3 lc rgb '" INK "'\n"
          "set tics nomirror textcolor rgb '" INK "'\n"
          "set key below height 0.6 textcolor rgb '" INK "'\n"
          "set grid lc rgb '" GRID "' lw 0.4\n"
          "set xlabel offset 0,0.4 textcolor rgb '" INK "'\n"
          "set ylabel textcolor rgb '" INK "'\n",
          f);
    put_axis(f, 'x', &plot->x);
    put_axis(f, 'y', &plot->y);
    put_whole(f, plot);
}

static bool is_drawn(const lsi_plot *plot, size_t series)
{
    const lsi_plot_series *const s = &plot->series[series];
    for (size_t i = 0; i < s->n; i++) {
        if (fits(&plot->x, s->x[i]) && fits(&plot->y, s->y[i]))
            return true;
    }
    return false;
}

/* gnuplot reports a series without points as an error. */
static size_t put_data(FILE *f, const lsi_plot *plot)
{
    size_t drawn = 0;
    for (size_t i = 0; i < plot->n_series; i++) {
        if (!is_drawn(plot, i))
            continue;
        fprintf(f, "$series%zu << END\n", i);
        for (size_t k = 0; k < plot->series[i].n; k++)
            put_point(f, plot, i, k);
        fputs("END\n", f);
        drawn++;
    }
    return drawn;
}

static void put_plots(FILE *f, const lsi_plot *plot)
{
    const char *separator = "plot ";
    for (size_t i = 0; i < plot->n_series; i++) {
        if (!is_drawn(plot, i))
            continue;
        fprintf(f, "%s$series%zu", separator, i);
        put_style(f, plot, i);
        separator = ", \\\n     ";
    }
    fputc('\n', f);
}

ls_status lsi_plot_script(const lsi_plot *plot, char **out)
{
    lsi_text_stream text;
    LS_TRY(lsi_text_stream_open(&text));
    put_head(text.file, plot);
    const size_t drawn = put_data(text.file, plot);
    put_plots(text.file, plot);
    const ls_status status =
        drawn > 0 ? LS_OK
                  : lsi_fail(LS_ERR_ARGUMENT, "the plot '%s' has no points",
                             plot->name);
    return lsi_text_stream_close(&text, status, out);
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
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot create the files for a plot");
    LS_TRY(lsi_write_all(d->script, script, strlen(script), "a plot"));
    if (lseek(d->script, 0, SEEK_SET) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot create the files for a plot");
    return LS_OK;
}

static ls_status start(drawing *d)
{
    static char program[] = "gnuplot";
    char *const argv[] = {program, NULL};
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory to draw a plot");
    posix_spawn_file_actions_adddup2(&actions, d->script, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, d->picture[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, d->error, STDERR_FILENO);
    const int error =
        posix_spawnp(&d->pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close_one(&d->picture[1]);
    if (error == ENOENT || error == EACCES)
        return lsi_fail(
            LS_ERR_NOT_FOUND,
            "cannot draw plots because the program gnuplot is not installed");
    if (error != 0) {
        errno = error;
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot run gnuplot");
    }
    return LS_OK;
}

/* Copies all output; false if it is too long or late. */
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

/* The first words of an error, on one line. */
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
                        "gnuplot did not finish a plot within %d seconds",
                        MOST_SECONDS);
    if (WIFEXITED(ended) && WEXITSTATUS(ended) == 0)
        return LS_OK;
    read_error(d->error, text);
    return lsi_fail(LS_ERR_SYSTEM, "gnuplot failed to draw a plot: %s", text);
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

/* Ids that gnuplot uses in every picture. */
static const char *const ids[] = {"gpDot", "gpPt", "textbox", "greybox",
                                  "gnuplot_"};

/* Bytes of an id at this position; it follows a quote or '#'. */
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
            fputs("\n" STYLE, f);
        svg++;
    }
}

/* An SVG with unique ids and both colours, from a raw one. */
static ls_status adapt(const lsi_plot *plot, const char *raw, char **out)
{
    lsi_text_stream text;
    const char *const svg = strstr(raw, "<svg");
    if (svg == NULL)
        return lsi_fail(LS_ERR_SYSTEM, "gnuplot did not write an SVG picture");
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

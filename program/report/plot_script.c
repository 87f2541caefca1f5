/*
 * What gnuplot is told. Texts are quoted and not interpreted; data stand in the
 * script, so that it needs no file.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "report/plot.h"
#include "report/plot_colours.h"
#include "report/text_stream.h"

/* Okabe and Ito's colours, which nearly everybody can tell apart, without the
 * yellow and the black that one of light and dark would swallow. */
static const char *const palette[] = {"#0072b2", "#d55e00", "#009e73",
                                      "#cc79a7", "#e69f00", "#56b4e9",
                                      "#8c6d31", "#7f7f7f"};
enum { COLOURS = sizeof(palette) / sizeof(palette[0]) };

static const char *colour_of(const lsi_plot *plot, size_t i)
{
    const int wanted = plot->series[i].colour;
    return palette[(wanted > 0 ? (size_t)wanted - 1 : i) % COLOURS];
}

/* In single quotes, in which only these have a meaning. */
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

/* With steps of one gnuplot would set labels between them. */
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
    /* Rows are read from above. */
    if (axis == 'y')
        fprintf(f, ")\nset yrange [%g:-0.6]\n", (double)a->n_categories - 0.4);
    else
        fprintf(f, ")\nset xrange [-0.6:%g]\n", (double)a->n_categories - 0.4);
}

static bool fits(const lsi_plot_axis *axis, double value)
{
    return isfinite(value) && (!axis->log || value > 0);
}

/* How high the series of its style before it reach there. */
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

/* Bars of a category share 0.8 of its room. */
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

/* A box: its middle, which gnuplot wants first, and its four sides. */
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
        [LSI_PLOT_POINTS] = "points",
        [LSI_PLOT_LINES_POINTS] = "linespoints",
        [LSI_PLOT_STEPS] = "steps",
        [LSI_PLOT_FILLED] = "filledcurves",
        [LSI_PLOT_BARS] = "boxxyerror fill solid 1 noborder",
        [LSI_PLOT_SPANS] = "boxxyerror fill solid 1 noborder",
    };
    enum { ROUND = 7 }; /* gnuplot's number of a filled circle */
    const lsi_plot_series *const s = &plot->series[i];
    fprintf(f, " with %s lc rgb '%s'", how[s->style], colour_of(plot, i));
    if (s->style == LSI_PLOT_POINTS || s->style == LSI_PLOT_LINES_POINTS)
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
            plot->width > 0 ? plot->width : WIDTH,
            plot->height > 0 ? plot->height : HEIGHT);
    fputs("\nset encoding utf8\n"
          "set border 3 lc rgb '" LSI_PLOT_INK "'\n"
          "set tics nomirror textcolor rgb '" LSI_PLOT_INK "'\n"
          "set key below height 0.6 textcolor rgb '" LSI_PLOT_INK "'\n"
          "set grid lc rgb '" LSI_PLOT_GRID "' lw 0.4\n"
          "set xlabel offset 0,0.4 textcolor rgb '" LSI_PLOT_INK "'\n"
          "set ylabel textcolor rgb '" LSI_PLOT_INK "'\n",
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

/* gnuplot takes a series without points for a mistake. */
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
                  : lsi_fail(LS_ERR_ARGUMENT, "the plot \"%s\" has no points",
                             plot->name);
    return lsi_text_stream_close(&text, status, out);
}

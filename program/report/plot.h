/*
 * Plots as SVG, drawn by the program gnuplot. Where that is not installed there
 * are none, and everything else goes on. The pictures are without background,
 * and for light and dark pages: texts and axes follow prefers-color-scheme.
 *
 *     const lsi_plot_series series[] = {
 *         {.name = "2 ranks", .x = bytes, .y = rate, .n = 5,
 *          .style = LSI_PLOT_LINES_POINTS},
 *     };
 *     const lsi_plot plot = {
 *         .name = "all-reduce",
 *         .x = {.label = "message (bytes)", .log = true, .si = true},
 *         .y = {.label = "bus bandwidth (GB/s)", .from_zero = true},
 *         .series = series, .n_series = 1};
 *     lsi_plot_write(&plot, "all-reduce.svg");
 */
#ifndef LS_REPORT_PLOT_H
#define LS_REPORT_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/status.h"

typedef enum lsi_plot_style {
    LSI_PLOT_LINES,
    LSI_PLOT_LINES_POINTS,
    LSI_PLOT_FILLED, /* the area below */
    LSI_PLOT_BARS,   /* x counts categories from 0 */
    LSI_PLOT_SPANS,  /* from x to x_end in the row y, which counts from 0 */
} lsi_plot_style;

/*
 * n points, in the order of x. Points that are not finite, or not positive on a
 * logarithmic axis, are left out; lines have a gap there.
 */
typedef struct lsi_plot_series {
    const char *name; /* name in the legend; NULL: not in it */
    const double *x, *y;
    const double *x_end; /* ends of spans */
    size_t n;
    lsi_plot_style style;
    bool dashed; /* for limits, predictions and numbers of others */
    int colour;  /* 0: the next colour; else 1 + its index in the palette */
} lsi_plot_series;

typedef struct lsi_plot_axis {
    const char *label; /* label with its unit */
    bool log, from_zero;
    bool whole; /* a count: no labels between whole numbers; x axis only */
    bool si;    /* 1k, 1M, 1G; for a logarithmic axis */
    const char *const *categories; /* names of 0, 1, ...; or NULL */
    size_t n_categories;
} lsi_plot_axis;

typedef struct lsi_plot {
    const char *name; /* one word: letters, digits and '-' */
    lsi_plot_axis x, y;
    bool stacked; /* areas, or bars, on top of earlier series; same x */
    int height;   /* height of the view box, which is 760 wide; 0: 400 */
    const lsi_plot_series *series;
    size_t n_series;
} lsi_plot;

/* Whether gnuplot is installed; checked on each call. */
bool lsi_plot_available(void);

/*
 * Draws the plot: *out is the text of an SVG, which the caller frees with
 * free(). Its ids begin with the plot's name, so that one page can contain
 * several. LS_ERR_NOT_FOUND without gnuplot, LS_ERR_TIMEOUT if it runs for more
 * than a minute, LS_ERR_SYSTEM with its message if it fails.
 */
ls_status lsi_plot_svg(const lsi_plot *plot, char **out);

/* Draws the plot to a file. */
ls_status lsi_plot_write(const lsi_plot *plot, const char *path);

/* The script for gnuplot, for tests; freed with free(). */
ls_status lsi_plot_script(const lsi_plot *plot, char **out);

#endif

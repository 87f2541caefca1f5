/*
 * Plots: what gnuplot is told, and what becomes of its pictures where it is
 * installed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "report/plot.h"
#include "testing.h"

static const double x[] = {1, 10, 100}, y[] = {3, 2.5, 4};

static lsi_plot_series lines(const char *name)
{
    return (lsi_plot_series){
        .name = name, .x = x, .y = y, .n = 3, .style = LSI_PLOT_LINES_POINTS};
}

static char *script_of(const lsi_plot *plot)
{
    char *script = NULL;
    assert_ok(lsi_plot_script(plot, &script));
    return script;
}

static void assert_in(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no \"%s\" in:\n%s", part, text);
}

static void a_script_has_labels_scales_and_points(void **state)
{
    (void)state;
    const lsi_plot_series series = lines("it's \\a {b}\n_c");
    const lsi_plot plot = {.name = "some-plot",
                           .x = {.label = "bytes", .log = true, .si = true},
                           .y = {.label = "time (ms)", .from_zero = true},
                           .series = &series,
                           .n_series = 1};
    char *script = script_of(&plot);
    assert_in(script, "set xlabel 'bytes'");
    assert_in(script, "set logscale x");
    assert_in(script, "set ylabel 'time (ms)'");
    assert_in(script, "set yrange [0:*]");
    assert_in(script, "1 3\n10 2.5\n100 4\nEND\n");
    assert_in(script, "title 'it''s \\a {b} _c'"); /* a quote is doubled */
    free(script);
}

static void points_that_cannot_be_drawn_are_gaps(void **state)
{
    (void)state;
    static const double values[] = {1, NAN, 0}, places[] = {1, 2, 3};
    const lsi_plot_series series = {
        .x = places, .y = values, .n = 3, .style = LSI_PLOT_LINES};
    lsi_plot plot = {.name = "p", .series = &series, .n_series = 1};
    char *script = script_of(&plot);
    assert_in(script, "<< END\n1 1\n\n3 0\nEND\n");
    free(script);
    plot.y.log = true;
    script = script_of(&plot);
    assert_in(script, "<< END\n1 1\n\n\nEND\n");
    free(script);
}

static void what_is_counted_has_no_labels_between(void **state)
{
    (void)state;
    const lsi_plot_series series = lines("a");
    lsi_plot plot = {.name = "p",
                     .x = {.label = "epoch", .whole = true},
                     .series = &series,
                     .n_series = 1};
    char *script = script_of(&plot);
    assert_null(strstr(script, "set xtics 1\n")); /* there would be 100 */
    free(script);
    const lsi_plot_series few = {.x = x, .y = y, .n = 2};
    plot.series = &few;
    script = script_of(&plot);
    assert_in(script, "set xtics 1\n");
    free(script);
}

static void a_plot_without_points_is_an_error(void **state)
{
    (void)state;
    lsi_plot_series series = lines("empty");
    series.n = 0;
    const lsi_plot plot = {.name = "nothing", .series = &series, .n_series = 1};
    char *script = NULL;
    assert_error(lsi_plot_script(&plot, &script), LS_ERR_ARGUMENT, "nothing");
    assert_null(script);
}

static void bars_and_areas_stand_on_each_other(void **state)
{
    (void)state;
    static const double at[] = {0, 1}, low[] = {2, 4}, high[] = {3, 1};
    static const char *const names[] = {"a", "b"};
    lsi_plot_series series[] = {
        {.x = at, .y = low, .n = 2, .style = LSI_PLOT_BARS},
        {.x = at, .y = high, .n = 2, .style = LSI_PLOT_BARS},
    };
    lsi_plot plot = {.name = "p",
                     .x = {.categories = names, .n_categories = 2},
                     .series = series,
                     .n_series = 2};
    char *script = script_of(&plot);
    /* With a border the colour would be the border's. */
    assert_in(script, "with boxxyerror fill solid 1 noborder lc rgb '#0072b2'");
    assert_in(script, "set xtics ('a' 0, 'b' 1)");
    assert_in(script, "-0.2 1 -0.4 0 0 2\n"); /* next to each other */
    assert_in(script, "1.2 0.5 1 1.4 0 1\n");
    free(script);
    plot.stacked = true;
    script = script_of(&plot);
    assert_in(script, "0 3.5 -0.4 0.4 2 5\n"); /* 3 on 2 */
    assert_in(script, "1 4.5 0.6 1.4 4 5\n");
    free(script);
    series[0].style = series[1].style = LSI_PLOT_FILLED;
    script = script_of(&plot);
    assert_in(script, "0 2 5\n1 4 5\nEND\n");
    free(script);
}

static void spans_lie_in_rows(void **state)
{
    (void)state;
    static const double from[] = {1, 5}, to[] = {3, 6}, row[] = {0, 1};
    static const char *const names[] = {"rank 0", "rank 1"};
    const lsi_plot_series series = {.name = "s",
                                    .x = from,
                                    .x_end = to,
                                    .y = row,
                                    .n = 2,
                                    .style = LSI_PLOT_SPANS};
    const lsi_plot plot = {.name = "p",
                           .y = {.categories = names, .n_categories = 2},
                           .series = &series,
                           .n_series = 1};
    char *script = script_of(&plot);
    assert_in(script, "2 0 1 3 -0.4 0.4\n5.5 1 5 6 0.6 1.4\n");
    assert_in(script, "set yrange [1.6:-0.6]");
    free(script);
}

static void a_picture_is_its_own(void **state)
{
    (void)state;
    if (!lsi_plot_available())
        skip();
    const lsi_plot_series series[] = {lines("a < b & c"), lines("other")};
    const lsi_plot plot = {.name = "first-one",
                           .x = {.label = "bytes", .log = true, .si = true},
                           .series = series,
                           .n_series = 2};
    char *svg = NULL;
    assert_ok(lsi_plot_svg(&plot, &svg));
    assert_memory_equal(svg, "<svg", 4);
    assert_in(svg, "</svg>");
    assert_in(svg, "prefers-color-scheme:dark");
    assert_in(svg, "a &lt; b &amp; c");
    assert_in(svg, "id='first-one-gpPt6'");
    assert_in(svg, "'#first-one-gpPt6'");
    assert_in(svg, "id=\"first-one-gnuplot_canvas\"");
    assert_null(strstr(svg, "\"gnuplot_"));
    assert_null(strstr(svg, "'gpPt"));
    assert_null(strstr(svg, "'#gpPt"));
    /* The colours that the style rule replaces on dark pages are present. */
    assert_in(svg, " fill=\"rgb(32,32,33)\"");
    assert_in(svg, "stroke='rgb( 32,  32,  33)'");
    assert_in(svg, "stroke='rgb(160, 160, 161)'");
    free(svg);
}

static void without_gnuplot_it_says_so(void **state)
{
    (void)state;
    const lsi_plot_series series = lines("a");
    const lsi_plot plot = {.name = "p", .series = &series, .n_series = 1};
    char *const path = strdup(getenv("PATH") != NULL ? getenv("PATH") : "");
    char *svg = NULL;
    assert_int_equal(setenv("PATH", "/nonexistent", 1), 0);
    assert_false(lsi_plot_available());
    assert_error(lsi_plot_svg(&plot, &svg), LS_ERR_NOT_FOUND, "gnuplot");
    assert_null(svg);
    assert_int_equal(setenv("PATH", path, 1), 0);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_script_has_labels_scales_and_points),
        cmocka_unit_test(points_that_cannot_be_drawn_are_gaps),
        cmocka_unit_test(what_is_counted_has_no_labels_between),
        cmocka_unit_test(a_plot_without_points_is_an_error),
        cmocka_unit_test(bars_and_areas_stand_on_each_other),
        cmocka_unit_test(spans_lie_in_rows),
        cmocka_unit_test(a_picture_is_its_own),
        cmocka_unit_test(without_gnuplot_it_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Rows as tables and plots of the document.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands/report/report.h"
#include "report/result.h"
#include "report/text_stream.h"

enum { MOST_COLUMNS = 24, CELL_BYTES = 160 };

static void cell_text(const json_t *row, const lsi_study_column *c,
                      char out[CELL_BYTES])
{
    const json_t *const value = lsi_at(row, c->path);
    out[0] = '\0';
    if (json_is_string(value))
        snprintf(out, CELL_BYTES, "%s", json_string_value(value));
    else if (json_is_boolean(value))
        snprintf(out, CELL_BYTES, "%s", json_is_true(value) ? "yes" : "no");
    else if (json_is_number(value))
        snprintf(out, CELL_BYTES, "%.*f", c->decimals,
                 json_number_value(value) * (c->factor != 0 ? c->factor : 1));
}

static bool is_number_column(const json_t *rows, const char *path)
{
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row)
    {
        if (lsi_at(row, path) != NULL)
            return json_is_number(lsi_at(row, path));
    }
    return false;
}

void lsi_study_table(lsi_study *report, const json_t *rows,
                     const lsi_study_column *columns, size_t n)
{
    const char *titles[MOST_COLUMNS], *cells[MOST_COLUMNS];
    char texts[MOST_COLUMNS][CELL_BYTES];
    bool numbers[MOST_COLUMNS];
    if (json_array_size(rows) == 0 || n > MOST_COLUMNS)
        return;
    for (size_t i = 0; i < n; i++) {
        titles[i] = columns[i].title;
        numbers[i] = is_number_column(rows, columns[i].path);
        cells[i] = texts[i];
    }
    lsi_document_table(report->document, titles, numbers, n);
    for (size_t k = 0; k < json_array_size(rows); k++) {
        for (size_t i = 0; i < n; i++)
            cell_text(json_array_get(rows, k), &columns[i], texts[i]);
        lsi_document_row(report->document, cells, n);
    }
}

void lsi_study_peers_table(lsi_study *report, const char *what,
                           const lsi_study_column *columns, size_t n)
{
    json_t *const peers = lsi_study_peers(report, what);
    if (json_array_size(peers) > 0)
        lsi_document_paragraph(report->document, "Results of other programs:");
    lsi_study_table(report, peers, columns, n);
    json_decref(peers);
}

char *lsi_study_lines(const char *id)
{
    size_t i;
    const json_t *line;
    char *lines = NULL;
    lsi_text_stream text;
    json_t *const file = lsi_rows_of(id);
    if (file != NULL && lsi_text_stream_open(&text) == LS_OK) {
        json_array_foreach(json_object_get(file, "rows"), i, line)
        {
            fprintf(text.file, "%s\n", json_string_value(line));
        }
        if (lsi_text_stream_close(&text, LS_OK, &lines) != LS_OK)
            lines = NULL;
    }
    json_decref(file);
    return lines;
}

void lsi_study_output(lsi_study *report, const char *title, const char *id)
{
    char *const text = lsi_study_lines(id);
    if (text != NULL) {
        lsi_document_heading(report->document, 3, "%s", title);
        lsi_document_code(report->document, text);
    }
    free(text);
}

/* ---- commands ------------------------------------------------------------ */

static char *lines_of(const lsi_study *report, const lsi_section *section)
{
    char *lines;
    lsi_text_stream text;
    if (lsi_text_stream_open(&text) != LS_OK)
        return NULL;
    for (size_t i = 0; i < section->n; i++) {
        const lsi_measurement *const m = &section->measurements[i];
        const json_t *const known = json_object_get(report->measured, m->id);
        char *const line = lsi_study_command(report, m);
        const char *const measured = lsi_string_at(known, "command");
        fprintf(text.file, "lockstep %s\n",
                measured[0] != '\0' ? measured
                : line != NULL      ? line
                                    : m->id);
        free(line);
    }
    return lsi_text_stream_close(&text, LS_OK, &lines) == LS_OK ? lines : NULL;
}

void lsi_study_commands(lsi_study *report, const lsi_section *section)
{
    if (section->n == 0)
        return;
    char *const text = lines_of(report, section);
    if (text != NULL)
        lsi_document_code(report->document, text);
    free(text);
    for (size_t i = 0; i < section->n; i++) {
        const char *const id = section->measurements[i].id;
        const char *const status = lsi_measured_status(report, id);
        json_t *const rows = lsi_rows_of(id);
        if (status[0] != '\0' && strcmp(status, "ok") != 0)
            lsi_document_note(
                report->document, "`%s`: %s%s", id, status,
                rows != NULL ? "; the report contains its results so far" : "");
        else if (rows == NULL)
            lsi_document_note(report->document, "`%s`: not measured", id);
        json_decref(rows);
    }
}

/* ---- plots --------------------------------------------------------------- */

lsi_study_plot lsi_study_plot_new(const char *name, const char *caption)
{
    return (lsi_study_plot){
        .plot = {.name = name},
        .caption = caption,
        .series = calloc(LSI_SERIES_MOST + 1, sizeof(lsi_study_series))};
}

lsi_study_series *lsi_study_plot_series(lsi_study_plot *plot,
                                        lsi_plot_style style,
                                        const char *format, ...)
{
    static lsi_study_series nowhere;
    va_list args;
    if (plot->series == NULL) {
        nowhere.n = 0;
        return &nowhere;
    }
    /* The last element absorbs surplus series, and is not drawn. */
    lsi_study_series *const s =
        &plot->series[plot->n < LSI_SERIES_MOST ? plot->n++ : LSI_SERIES_MOST];
    s->style = style;
    va_start(args, format);
    vsnprintf(s->name, sizeof(s->name), format, args);
    va_end(args);
    return s;
}

void lsi_study_point(lsi_study_series *series, double x, double y)
{
    if (series->n == LSI_POINTS_MOST)
        return;
    series->x[series->n] = x;
    series->y[series->n++] = y;
}

void lsi_study_points(lsi_study_series *series, const json_t *rows,
                      const char *x, const char *y)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *const row = json_array_get(rows, i);
        const double at = lsi_number_at(row, x), value = lsi_number_at(row, y);
        if (isfinite(at) && isfinite(value))
            lsi_study_point(series, at, value);
    }
}

static size_t gather(const lsi_study_plot *plot, lsi_plot_series *out)
{
    size_t n = 0;
    for (size_t i = 0; i < plot->n; i++) {
        const lsi_study_series *const s = &plot->series[i];
        if (s->n == 0)
            continue;
        out[n++] =
            (lsi_plot_series){.name = s->name[0] != '\0' ? s->name : NULL,
                              .x = s->x,
                              .y = s->y,
                              .x_end = s->end,
                              .n = s->n,
                              .style = s->style,
                              .dashed = s->dashed,
                              .colour = s->colour};
    }
    return n;
}

void lsi_study_draw(lsi_study *report, lsi_study_plot *plot)
{
    lsi_plot_series series[LSI_SERIES_MOST];
    char path[CELL_BYTES], *svg = NULL;
    if (plot->series == NULL)
        return;
    plot->plot.series = series;
    plot->plot.n_series = gather(plot, series);
    snprintf(path, sizeof(path), "plots/%s.svg", plot->plot.name);
    if (plot->plot.n_series > 0 && report->plots) {
        if (lsi_plot_svg(&plot->plot, &svg) == LS_OK &&
            lsi_result_replace(path, svg, strlen(svg)) == LS_OK)
            lsi_document_picture(report->document, plot->plot.name, svg,
                                 plot->caption);
        else
            lsi_document_note(report->document, "The plot `%s` is missing: %s",
                              plot->plot.name, ls_last_error());
    }
    free(svg);
    free(plot->series);
    plot->series = NULL;
}

#include "cli/commands/memory_tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/append.h"
#include "base/error.h"
#include "report/paragraph.h"
#include "report/plot.h"
#include "report/table.h"

enum { COURSE = 400, PATH_ROOM = 256, CODE_ROOM = 512, LINE_WIDTH = 26 };

static const double mib = 1024.0 * 1024.0;

#define MIB_COLUMN LSI_COLUMN(REAL, "mib", "MiB", .decimals = 2)

/* A table without rows is left out. */
static ls_status print_table(const lsi_table *table)
{
    return lsi_table_row_count(table) == 0 ? lsi_table_status(table)
                                           : lsi_table_print(table, stdout);
}

/* ---- rows by layer or operation ------------------------------------------ */

static ls_status print_rows(const lsi_memory_file *f, lsi_memory_key key,
                            size_t most)
{
    const lsi_column columns[] = {
        LSI_COLUMN(TEXT, "who",
                   key == LSI_MEMORY_BY_LAYER ? "Layer" : "Operation"),
        MIB_COLUMN,
        LSI_COLUMN(INT, "blocks", "Blocks"),
    };
    lsi_memory_row *rows = NULL;
    lsi_table *table = NULL;
    size_t n;
    LS_TRY(lsi_memory_rows(f, key, f->live_peak_time, &rows, &n));
    ls_status status = LSI_TABLE_NEW(&table, columns);
    for (size_t i = 0; i < n && i < most && status == LS_OK; i++) {
        char text[PATH_ROOM];
        lsi_memory_row_text(f, key, &rows[i], text, sizeof(text));
        lsi_table_row(table);
        lsi_table_text(table, "who", text);
        lsi_table_real(table, "mib", (double)rows[i].bytes / mib);
        lsi_table_int(table, "blocks", rows[i].blocks);
    }
    free(rows);
    if (status == LS_OK)
        status = print_table(table);
    lsi_table_free(&table);
    if (status == LS_OK && n > most)
        printf("and %zu more rows; use --rows N or --json to see all rows\n",
               n - most);
    if (n > 0)
        printf("\n");
    return status;
}

/* ---- the largest blocks -------------------------------------------------- */

/* "attention: linear", as far as they are known. */
static void name_block(const lsi_memory_file *f, const lsi_memory_block *b,
                       char *out, size_t room)
{
    char path[PATH_ROOM];
    lsi_memory_path_text(f, b->path, path, sizeof(path));
    const char *const what =
        lsi_memory_text(f, b->operation != 0 ? b->operation : b->what);
    snprintf(out, room, "%s%s%s", path, path[0] != '\0' ? ": " : "", what);
}

/* The end of a path, from a folder on, so that it is at most so wide. */
static const char *end_of_path(const char *path)
{
    while (strlen(path) > LINE_WIDTH) {
        const char *const folder = strchr(path, '/');
        if (folder == NULL || folder[1] == '\0')
            break;
        path = folder + 1;
    }
    return path;
}

/* "attend at lib/model/nn/a.c:12": the call is for wide tables. */
static void record_line(lsi_table *table, bool wide, char *line)
{
    char *const at = strstr(line, " at ");
    const char *const place = at != NULL ? at + strlen(" at ") : line;
    lsi_table_text(table, "line", wide ? place : end_of_path(place));
    if (at != NULL) {
        *at = '\0';
        lsi_table_text(table, "call", line);
    }
}

static ls_status print_largest(const lsi_memory_file *f, size_t most, bool wide)
{
    static const lsi_column columns[] = {
        LSI_COLUMN(TEXT, "who", "Largest block"),
        MIB_COLUMN,
        LSI_COLUMN(INT, "blocks", "Alike"),
        LSI_COLUMN(TEXT, "kind", "Kind", .wide = true),
        LSI_COLUMN(TEXT, "call", "Function", .wide = true),
        LSI_COLUMN(TEXT, "line", "Line"),
    };
    lsi_memory_row *rows = NULL;
    lsi_table *table = NULL;
    size_t n;
    lsi_memory_code *code = lsi_memory_code_open(f);
    ls_status status =
        lsi_memory_rows(f, LSI_MEMORY_BY_SIZE, f->live_peak_time, &rows, &n);
    if (status == LS_OK)
        status = LSI_TABLE_NEW(&table, columns);
    if (status == LS_OK && wide)
        lsi_table_show_wide(table);
    for (size_t i = 0; status == LS_OK && i < n && i < most; i++) {
        char text[PATH_ROOM + 100], line[CODE_ROOM];
        const lsi_memory_block *const b = rows[i].first;
        name_block(f, b, text, sizeof(text));
        lsi_memory_code_of(code, b, line, sizeof(line));
        lsi_table_row(table);
        lsi_table_real(table, "mib", (double)b->bytes / mib);
        lsi_table_int(table, "blocks", rows[i].blocks);
        lsi_table_text(table, "kind", lsi_memory_series_name(b->kind));
        lsi_table_text(table, "who", text);
        record_line(table, wide, line);
    }
    free(rows);
    lsi_memory_code_free(&code);
    if (status == LS_OK)
        status = print_table(table);
    lsi_table_free(&table);
    return status;
}

/* ---- the residual stream ------------------------------------------------- */

static int64_t formula(lsi_memory_residual r)
{
    return r.batch * r.context * r.d_model * (int64_t)sizeof(float);
}

/* The sums that blocks add their parts to: the first, and how many are live. */
static const lsi_memory_block *find_sums(const lsi_memory_file *f, size_t *live)
{
    const lsi_memory_block *first = NULL;
    char path[PATH_ROOM];
    *live = 0;
    for (size_t i = 0; i < f->n_blocks; i++) {
        const lsi_memory_block *const b = &f->blocks[i];
        if (!b->kept || strcmp(lsi_memory_text(f, b->operation), "add") != 0)
            continue;
        lsi_memory_path_text(f, b->path, path, sizeof(path));
        if (strncmp(path, "block ", 6) != 0)
            continue;
        first = first != NULL ? first : b;
        *live += b->bytes == first->bytes && b->taken <= f->live_peak_time &&
                 b->given > f->live_peak_time;
    }
    return first;
}

static void print_residual(const lsi_memory_file *f, lsi_memory_residual r)
{
    size_t live;
    const lsi_memory_block *const sum = find_sums(f, &live);
    if (r.d_model == 0 || sum == NULL)
        return;
    lsi_paragraph(stdout,
                  "One tensor of the residual stream: batch %" PRId64
                  " x context %" PRId64 " x d_model %" PRId64
                  " x 4 bytes = %.2f MiB by formula, %.2f MiB recorded. At the "
                  "peak, %zu such tensor%s in use.\n",
                  r.batch, r.context, r.d_model, (double)formula(r) / mib,
                  (double)sum->bytes / mib, live,
                  live == 1 ? " was" : "s were");
}

/* ---- all of it ----------------------------------------------------------- */

/* The phase in which the last block before the peak was taken. */
static const char *phase_of(const lsi_memory_file *f)
{
    const char *phase = "";
    for (size_t i = 0;
         i < f->n_blocks && f->blocks[i].taken <= f->live_peak_time; i++)
        phase = lsi_memory_text(f, f->blocks[i].phase);
    return phase;
}

static void print_live_peak(const lsi_memory_file *f)
{
    const char *const phase = phase_of(f);
    char kinds[300] = "";
    for (int k = 0; k < LSI_MEMORY_KEPT; k++) {
        if (f->at_live_peak[k] > 0)
            lsi_append(kinds, sizeof(kinds), ", %s %.2f MiB",
                       lsi_memory_series_name(k),
                       (double)f->at_live_peak[k] / mib);
    }
    lsi_paragraph(
        stdout,
        "Peak of live memory: %.2f MiB, %.1f ms after the start%s%s%s. The "
        "peak including the memory that pools keep: %.2f MiB.",
        (double)f->live_peak / mib, (double)f->live_peak_time * 1e-6,
        phase[0] != '\0' ? ", in " : "", phase, kinds, (double)f->peak / mib);
}

static void print_peak(const lsi_memory_file *f)
{
    if (f->peak > 0)
        print_live_peak(f);
    else
        lsi_paragraph(stdout, "The recording contains no allocations.");
    if (f->refused > 0)
        lsi_paragraph(stdout, "Refused allocations: %" PRIu64 ".", f->refused);
    if (!f->process->whole)
        lsi_paragraph(stdout,
                      "The recording is incomplete: its process was killed.");
    printf("\n");
}

ls_status lsi_memory_print(const lsi_memory_file *file,
                           lsi_memory_residual residual, size_t most, bool wide)
{
    print_peak(file);
    LS_TRY(print_rows(file, LSI_MEMORY_BY_LAYER, most));
    LS_TRY(print_rows(file, LSI_MEMORY_BY_OPERATION, most));
    print_residual(file, residual);
    return print_largest(file, most / 2 + 1, wide);
}

/* ---- JSON ---------------------------------------------------------------- */

static json_t *rows_json(const lsi_memory_file *f, lsi_memory_key key)
{
    lsi_memory_row *rows = NULL;
    size_t n = 0;
    json_t *const list = json_array();
    if (lsi_memory_rows(f, key, f->live_peak_time, &rows, &n) != LS_OK)
        return list;
    for (size_t i = 0; i < n; i++) {
        char text[PATH_ROOM];
        lsi_memory_row_text(f, key, &rows[i], text, sizeof(text));
        json_array_append_new(
            list, json_pack("{s:s, s:I, s:I}",
                            key == LSI_MEMORY_BY_LAYER ? "layer" : "operation",
                            text, "bytes", (json_int_t)rows[i].bytes, "blocks",
                            (json_int_t)rows[i].blocks));
    }
    free(rows);
    return list;
}

static json_t *largest_json(const lsi_memory_file *f)
{
    lsi_memory_row *rows = NULL;
    size_t n = 0;
    json_t *const list = json_array();
    lsi_memory_code *code = lsi_memory_code_open(f);
    if (lsi_memory_rows(f, LSI_MEMORY_BY_SIZE, f->live_peak_time, &rows, &n) !=
        LS_OK)
        n = 0;
    for (size_t i = 0; i < n && i < 100; i++) {
        char path[PATH_ROOM], line[CODE_ROOM];
        const lsi_memory_block *const b = rows[i].first;
        lsi_memory_path_text(f, b->path, path, sizeof(path));
        lsi_memory_code_of(code, b, line, sizeof(line));
        json_array_append_new(
            list,
            json_pack("{s:I, s:I, s:s, s:s, s:s, s:s, s:s}", "bytes",
                      (json_int_t)b->bytes, "alike", (json_int_t)rows[i].blocks,
                      "kind", lsi_memory_series_name(b->kind), "layer", path,
                      "operation", lsi_memory_text(f, b->operation), "what",
                      lsi_memory_text(f, b->what), "line", line));
    }
    lsi_memory_code_free(&code);
    free(rows);
    return list;
}

static json_t *kinds_json(const int64_t bytes[LSI_MEMORY_SERIES])
{
    json_t *const all = json_object();
    for (int k = 0; k < LSI_MEMORY_SERIES; k++)
        json_object_set_new(all, lsi_memory_series_name(k),
                            json_integer(bytes[k]));
    return all;
}

static json_t *course_json(const lsi_memory_file *f)
{
    lsi_memory_point *points = NULL;
    size_t n = 0;
    json_t *const list = json_array();
    if (lsi_memory_course(f, COURSE, &points, &n) != LS_OK)
        return list;
    for (size_t i = 0; i < n; i++) {
        json_t *const point = kinds_json(points[i].bytes);
        json_object_set_new(point, "ms",
                            json_real((double)points[i].time * 1e-6));
        json_array_append_new(list, point);
    }
    free(points);
    return list;
}

json_t *lsi_memory_json(const lsi_memory_file *file, lsi_memory_residual r)
{
    size_t live;
    const lsi_memory_block *const sum = find_sums(file, &live);
    json_t *const json = json_pack(
        "{s:i, s:b, s:I, s:I, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "rank",
        file->process->rank, "whole", file->process->whole, "peak_bytes",
        (json_int_t)file->peak, "live_peak_bytes", (json_int_t)file->live_peak,
        "live_peak_ms", (double)file->live_peak_time * 1e-6, "at_live_peak",
        kinds_json(file->at_live_peak), "peak_of_kind",
        kinds_json(file->peak_of), "layers",
        rows_json(file, LSI_MEMORY_BY_LAYER), "operations",
        rows_json(file, LSI_MEMORY_BY_OPERATION), "largest", largest_json(file),
        "timeline", course_json(file));
    if (r.d_model > 0 && sum != NULL)
        json_object_set_new(json, "residual",
                            json_pack("{s:I, s:I, s:I}", "formula_bytes",
                                      (json_int_t)formula(r), "recorded_bytes",
                                      (json_int_t)sum->bytes, "live_at_peak",
                                      (json_int_t)live));
    return json;
}

/* ---- the picture --------------------------------------------------------- */

/* Kinds that never occur have no area. */
static ls_status draw(const lsi_memory_point *points, size_t n, double *numbers,
                      const char *path)
{
    lsi_plot_series series[LSI_MEMORY_SERIES];
    lsi_plot plot = {.name = "memory",
                     .x = {.label = "time (ms)"},
                     .y = {.label = "memory (MiB)", .from_zero = true},
                     .stacked = true,
                     .series = series};
    double *const x = numbers;
    /* Memory between two points is that of the first. */
    for (size_t i = 0; i < 2 * n; i++) {
        const size_t next = (i + 1) / 2;
        x[i] = (double)points[next < n ? next : n - 1].time * 1e-6;
    }
    for (int k = 0; k < LSI_MEMORY_SERIES; k++) {
        double *const y = numbers + ((size_t)k + 1) * 2 * n;
        double most = 0;
        for (size_t i = 0; i < 2 * n; i++) {
            const size_t point = i / 2;
            y[i] = (double)points[point].bytes[k] / mib;
            most = y[i] > most ? y[i] : most;
        }
        if (most > 0)
            series[plot.n_series++] =
                (lsi_plot_series){.name = lsi_memory_series_name(k),
                                  .x = x,
                                  .y = y,
                                  .n = 2 * n,
                                  .style = LSI_PLOT_FILLED};
    }
    return lsi_plot_write(&plot, path);
}

ls_status lsi_memory_picture(const lsi_memory_file *file, const char *path)
{
    lsi_memory_point *points = NULL;
    size_t n = 0;
    LS_TRY(lsi_memory_course(file, COURSE, &points, &n));
    double *const numbers =
        malloc((2 * n * (LSI_MEMORY_SERIES + 1) + 1) * sizeof(double));
    const ls_status status =
        numbers == NULL
            ? lsi_fail(LS_ERR_MEMORY, "not enough memory for a picture")
            : draw(points, n, numbers, path);
    free(numbers);
    free(points);
    return status;
}

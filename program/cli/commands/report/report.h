/*
 * The parts of `lockstep report`: measurements and sections. Each measurement
 * is a command line of this program, whose rows become a file. Sections turn
 * these rows into tables, plots and sentences. Every figure comes from a row.
 */
#ifndef LS_CLI_COMMANDS_REPORT_REPORT_H
#define LS_CLI_COMMANDS_REPORT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lockstep/status.h"
#include "report/document.h"
#include "report/plot.h"

typedef enum lsi_rows_kind {
    LSI_ROWS_JSON,    /* what --json writes */
    LSI_ROWS_METRICS, /* what --metrics writes: a line of JSON each */
    LSI_ROWS_OUTPUT,  /* what is printed */
} lsi_rows_kind;

/*
 * A command line, of words separated by blanks, without "lockstep" and the flag
 * that names its file. `quick` NULL: as `full`.
 */
typedef struct lsi_measurement {
    const char *id; /* its rows are in rows/ID.json, .jsonl or .txt */
    lsi_rows_kind kind;
    const char *quick, *full;
    int quick_seconds, full_seconds; /* on two cores, about */
    bool takes_data;                 /* --data is passed on */
} lsi_measurement;

typedef struct lsi_study lsi_study;

typedef struct lsi_section {
    const char *id, *title;
    const lsi_measurement *measurements;
    size_t n;
    void (*write)(lsi_study *report);
} lsi_section;

/* The members of a section for its array of measurements. */
#define LSI_MEASUREMENTS(array)                                                \
    .measurements = (array), .n = sizeof(array) / sizeof((array)[0])

/* The sections in their order; all there are. */
extern const lsi_section *const lsi_sections[];
extern const size_t lsi_sections_count;

struct lsi_study {
    lsi_document *document;
    bool quick;
    bool runs;         /* measures what is not there yet */
    bool plots;        /* gnuplot is there */
    const char *data;  /* of CIFAR-100, or NULL */
    const char *again; /* ids to measure again, or NULL */
    const char *only;  /* ids to measure; NULL: all */
    json_t
        *measured; /* by id: {"command", "status", "seconds", "others_cpus"} */
    json_t *peers; /* rows of others, or NULL */
    json_t *compared; /* {"name", "rows"} of runs to compare */
    int ended_by;     /* the signal that has ended it, or 0 */
    int failed;       /* measurements */
};

/* ---- rows (rows.c) ------------------------------------------------------- */

/*
 * Reads a file of rows: *out has "rows", of metrics its lines, of an output its
 * lines as texts. The message of LS_ERR_FORMAT names the fault; the last line
 * of metrics may be incomplete.
 */
ls_status lsi_rows_read(const char *path, lsi_rows_kind kind, json_t **out);

/* The document of a measurement, with "rows"; NULL without one. */
json_t *lsi_rows_of(const char *id);

/* The path rows/ID with the file's extension. */
void lsi_rows_path(const lsi_measurement *m, char *out, size_t bytes);

/* Adds the rows of a measurement, if there are any. */
void lsi_rows_append(json_t *all, const char *id);

/* The value at "time_us.median" of a row; NULL if it is not there, or null. */
const json_t *lsi_at(const json_t *row, const char *path);

/* The number at a key; NAN without one. */
double lsi_number_at(const json_t *row, const char *path);

/* The text at a key; "" without one. */
const char *lsi_string_at(const json_t *row, const char *path);

/*
 * Rows for which all of "key=value key=value" hold, as text; a new reference.
 * rows may be NULL.
 */
json_t *lsi_rows_where(const json_t *rows, const char *conditions);

/* The first row for which all conditions hold, borrowed; or NULL. */
const json_t *lsi_row_where(const json_t *rows, const char *conditions);

/* Rows of peers of that kind ("what"); a new reference, perhaps empty. */
json_t *lsi_study_peers(const lsi_study *report, const char *what);

/* ---- measuring (measure.c) ----------------------------------------------- */

/*
 * In the report's folder: prints how long it takes, and runs the measurements
 * that are missing. A measurement that fails is reported and counted; a signal
 * ends the measuring.
 */
ls_status lsi_study_measure(lsi_study *report);

/* Reads the measurements of earlier runs, and checks every file of rows. */
ls_status lsi_study_open(lsi_study *report);

/* "ok", or why its rows are not whole, or not there. */
const char *lsi_measured_status(const lsi_study *report, const char *id);

/* The command line of a measurement, with its file; freed with free(). */
char *lsi_study_command(const lsi_study *report, const lsi_measurement *m);

/* ---- writing (tables.c) -------------------------------------------------- */

typedef struct lsi_study_column {
    const char *title, *path;
    int decimals;
    double factor; /* 0: 1 */
} lsi_study_column;

/* A table of rows; nothing if there are none. */
void lsi_study_table(lsi_study *report, const json_t *rows,
                     const lsi_study_column *columns, size_t n);
#define LSI_STUDY_TABLE(report, rows, columns)                                 \
    lsi_study_table(report, rows, columns,                                     \
                    sizeof(columns) / sizeof((columns)[0]))

/* A table of the peers' rows of that kind, below a sentence. */
void lsi_study_peers_table(lsi_study *report, const char *what,
                           const lsi_study_column *columns, size_t n);
#define LSI_STUDY_PEERS(report, what, columns)                                 \
    lsi_study_peers_table(report, what, columns,                               \
                          sizeof(columns) / sizeof((columns)[0]))

/* The lines that a command has printed; NULL: none. The caller's (free). */
char *lsi_study_lines(const char *id);

/* The lines that a command has printed, below a heading. */
void lsi_study_output(lsi_study *report, const char *title, const char *id);

/* Commands of a section, and its measurements that are not whole. */
void lsi_study_commands(lsi_study *report, const lsi_section *section);

enum { LSI_POINTS_MOST = 2000, LSI_SERIES_MOST = 12 };

/* A series that owns its points. */
typedef struct lsi_study_series {
    char name[80];
    double x[LSI_POINTS_MOST], y[LSI_POINTS_MOST], end[LSI_POINTS_MOST];
    size_t n;
    lsi_plot_style style;
    bool dashed;
    int colour;
} lsi_study_series;

typedef struct lsi_study_plot {
    lsi_plot plot;
    const char *caption;
    lsi_study_series *series; /* LSI_SERIES_MOST of them */
    size_t n;
} lsi_study_plot;

/* An empty plot. Without memory `series` is NULL, and adding does nothing. */
lsi_study_plot lsi_study_plot_new(const char *name, const char *caption);

/* The next series: its name as printf has it. Never NULL. */
lsi_study_series *lsi_study_plot_series(lsi_study_plot *plot,
                                        lsi_plot_style style,
                                        const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void lsi_study_point(lsi_study_series *series, double x, double y);

/* A point for each row that has both. */
void lsi_study_points(lsi_study_series *series, const json_t *rows,
                      const char *x, const char *y);

/* Draws it into plots/NAME.svg and the document; frees its series. */
void lsi_study_draw(lsi_study *report, lsi_study_plot *plot);

/* ---- timelines (attention_block.c) --------------------------------------- */

/*
 * A table and a picture of the last attention block in the traces of a folder;
 * nothing if there is none.
 */
void lsi_study_attention_block(lsi_study *report, const char *folder);

#endif

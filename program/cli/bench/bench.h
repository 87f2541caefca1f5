/*
 * The common frame of all benchmarks. It has their common flags, starts ranks
 * (for each number listed in turn), and shows progress. It shows and keeps the
 * rows so far, and makes one table of all rows, and the files. A benchmark is
 * one constant and one struct. The struct holds its flags, values derived from
 * them, and the data that a rank measures with:
 *
 *     typedef struct state {
 *         lsi_bench_common common;
 *         const char *sizes;
 *         lsi_list size_list;
 *         float *data;
 *     } state;
 *     #define ROW(...) LSI_OPTION(state, __VA_ARGS__)
 *     static const lsi_option options[] = {
 *         LSI_BENCH_ROWS("2", "5", "50"), ROW(sizes, ...)};
 *
 *     const lsi_bench lsi_bench_example = {
 *         .command = {.name = "example", LSI_COMMAND_OPTIONS(options), ...,
 *                     .run = lsi_bench_run},
 *         LSI_BENCH_TABLES(state, columns), ...};
 */
#ifndef LS_CLI_BENCH_BENCH_H
#define LS_CLI_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/frame/command.h"
#include "cli/frame/list.h"
#include "cli/frame/ranks.h"
#include "lockstep/group.h"
#include "report/table.h"

/* The first member of a benchmark's struct. */
typedef struct lsi_bench_common {
    const char *name;  /* of the benchmark */
    const char *ranks; /* "2", or "2,4,6"; NULL: not given */
    const char *bind;
    int64_t threads, warmup, iterations;
    bool deterministic;
    const char *json, *csv, *trace, *trace_steps, *memory;
    bool wide, markdown;
    /* On a rank: */
    ls_group *group;
    lsi_table *table; /* rank 0's is the result, the others' are dropped */
    size_t shown;     /* rows of the table that are printed */
    size_t cases;     /* number of cases to measure */
    bool wrong;       /* a result was wrong: rows as always, but exit 1 */
    bool hides_rows;  /* conclude prints something else */
    char notes[1024]; /* notes on the current case; see lsi_bench_note */
} lsi_bench_common;

#define LSI_BENCH_FOLDERS_HELP                                                 \
    "; with several values of --ranks, runs on N ranks write to DIR/N-ranks"

#define LSI_BENCH_OUTPUT_ROWS                                                  \
    ROW(common.trace, STRING, "trace", 0, "DIR", NULL,                         \
        LSI_TRACE_HELP LSI_BENCH_FOLDERS_HELP),                                \
        ROW(common.trace_steps, STRING, "trace-steps", 0, "FIRST:COUNT", NULL, \
            "trace COUNT steps, beginning with step FIRST: 2:3 traces steps "  \
            "2 to 4. A benchmark without steps traces everything if FIRST is " \
            "1, and nothing otherwise"),                                       \
        ROW(common.memory, STRING, "record-memory", 0, "DIR", NULL,            \
            LSI_RECORD_MEMORY_HELP LSI_BENCH_FOLDERS_HELP),                    \
        LSI_JSON_ROW(common.json), LSI_MARKDOWN_ROW(common.markdown),          \
        ROW(common.csv, OUTPUT, "csv", 0, "FILE", NULL,                        \
            "write the rows as CSV; without FILE, print them instead of the "  \
            "table"),                                                          \
        ROW(common.wide, BOOL, "wide", 0, NULL, NULL, "show all columns")

/* The rows of the common flags, to be used where ROW is defined. */
#define LSI_BENCH_ROWS(ranks_, warmup_, iterations_)                           \
    ROW(common.ranks, LIST, "ranks", 'n', "N,...", NULL,                       \
        "number of ranks to start, or 'auto' for one per CPU (default " ranks_ \
        "); several numbers are measured in turn"),                            \
        LSI_THREADS_ROW(common.threads), LSI_BIND_ROW(common.bind),            \
        LSI_DETERMINISTIC_ROW(common.deterministic),                           \
        ROW(common.warmup, INT, "warmup", 'w', "N", warmup_,                   \
            "number of warm-up runs before the measured runs", .min = 0,       \
            .max = 1e9),                                                       \
        ROW(common.iterations, INT, "iterations", 0, "N", iterations_,         \
            "number of measured runs", .min = 1, .max = 1e9),                  \
        LSI_BENCH_OUTPUT_ROWS

typedef struct lsi_bench lsi_bench;

struct lsi_bench {
    lsi_command command; /* first; its run is lsi_bench_run */
    size_t state_bytes;  /* of the struct, which begins as zeros */
    const lsi_column *columns;
    size_t n_columns;
    const char *ranks;    /* ranks to start without flags */
    const char *progress; /* the label of a bar over the cases; NULL: none */
    bool at_end;          /* shows no rows before all are there */
    /* Prints the lines below the table, which may lack rows; or NULL. */
    void (*foot)(const lsi_table *table, FILE *stream);
    /*
     * Parses the benchmark's own flags further, before ranks are started and on
     * each of them. A failure is a usage error. NULL: no flags to parse. Sets
     * common.cases unless open does.
     */
    ls_status (*parse)(void *state);
    /*
     * On the process that starts ranks: replaces the numbers of ranks; and is
     * called before the ranks of each number start, and when all rows are
     * there. Or NULL.
     */
    ls_status (*plan)(void *state, lsi_list *ranks);
    ls_status (*before)(void *state, size_t job, int ranks);
    ls_status (*conclude)(void *state);
    /*
     * Makes the data that a rank measures with. Close frees the data, also
     * after an error. Both are called on all ranks; or NULL.
     */
    ls_status (*open)(void *state);
    void (*close)(void *state);
    /* Measures a case and adds its rows; on all ranks. */
    ls_status (*measure)(void *state, size_t i);
    /* Text of the bar about a case while it runs; or NULL. */
    void (*describe)(const void *state, size_t i, char *note, size_t bytes);
};

/* The members of a benchmark for the type of its struct, and its columns. */
#define LSI_BENCH_TABLES(state_, columns_)                                     \
    .state_bytes = sizeof(state_), .columns = (columns_),                      \
    .n_columns = sizeof(columns_) / sizeof((columns_)[0])

/*
 * Prints a note about a case on stderr, on rank 0, after the rows of the case
 * are stored.
 */
void lsi_bench_note(lsi_bench_common *common, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sets a variable for the ranks that this process starts from here on. */
ls_status lsi_bench_set_variable(const char *name, const char *value);

/* New pages, zeroed, for buffers; the caller's, freed by munmap. */
ls_status lsi_bench_map(size_t bytes, void **out);

/* Runs the benchmark whose command was called: returns the exit status. */
int lsi_bench_run(const lsi_invocation *call);

/*
 * Limits memory to `bytes`, or for 0 to 90% of the available memory. A case
 * that does not fit is then a row that says so.
 */
void lsi_bench_set_budget(int64_t bytes);

/* The row of --budget; `of` says what it limits: "", " of each model". */
#define LSI_BUDGET_ROW(field, of)                                              \
    ROW(field, BYTES, "budget", 0, "BYTES", "0",                               \
        "memory limit" of "; 0: 90% of the available memory", .min = 0,        \
        .max = 1e18)

/* The error of memory for `n` measured times. */
ls_status lsi_bench_no_times(size_t n);

#endif

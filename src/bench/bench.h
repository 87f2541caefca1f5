/*
 * What every bench does around its measuring: its common flags, starting its
 * ranks (for each number listed in turn), one table of all rows, the files.
 *
 *     struct args { lsi_bench_flags common; ... };
 *     #define ROW(...) LSI_OPTION(struct args, __VA_ARGS__)
 *     static const lsi_option options[] = {
 *         LSI_BENCH_ROWS(common, "2", "5", "50"), ...};
 *
 *     static int run(const lsi_invocation *call)
 *     {
 *         struct args a;
 *         int status;
 *         if (!lsi_cli_parse(call, &a, NULL, &status))
 *             return status;
 *         return lsi_bench_run(call, &a.common, &bench, &a);
 *     }
 */
#ifndef LS_BENCH_BENCH_H
#define LS_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "command/command.h"
#include "lockstep/group.h"
#include "report/table.h"

typedef struct lsi_bench_flags {
    const char *ranks; /* "2", or "2,4,6"; NULL: not given */
    int64_t threads, warmup, iterations;
    bool deterministic;
    const char *json, *csv;
} lsi_bench_flags;

/*
 * The rows for a field of that name, to be used where ROW is defined; ranks_
 * as in lsi_bench.
 */
#define LSI_BENCH_ROWS(field, ranks_, warmup_, iterations_)                    \
    ROW(field.ranks, LIST, "ranks", 'n', "N,...", NULL,                        \
        "ranks to start (default " ranks_ "); of several numbers each in "     \
        "turn"),                                                               \
        LSI_THREADS_ROW(field.threads),                                        \
        LSI_DETERMINISTIC_ROW(field.deterministic),                            \
        ROW(field.warmup, INT, "warmup", 'w', "N", warmup_,                    \
            "runs that are not measured", .min = 0, .max = 1e9),               \
        ROW(field.iterations, INT, "iterations", 0, "N", iterations_,          \
            "runs that are", .min = 1, .max = 1e9),                            \
        ROW(field.json, STRING, "json", 0, "FILE", NULL,                       \
            "write the rows as JSON; - prints them instead of the table"),     \
        ROW(field.csv, STRING, "csv", 0, "FILE", NULL,                         \
            "write the rows as CSV; - prints them instead of the table")

typedef struct lsi_bench {
    const lsi_column *columns;
    size_t n_columns;
    const char *ranks; /* what is started if the flags say nothing */
    /*
     * Measures as one rank of a job; called on all of them. The rows that rank
     * 0 adds to its table are the result, the other ranks' are dropped. *wrong
     * (false before) says that a result was not right: the rows are shown and
     * written all the same, but the exit status is 1.
     */
    ls_status (*measure)(const void *args, ls_group *group, lsi_table *table,
                         bool *wrong);
    /* What can be found wrong with the arguments before ranks are started. */
    ls_status (*check)(const void *args);
} lsi_bench;

/*
 * For a measurement that takes long: keeps the rows so far of rank 0, which are
 * the result if the job breaks off.
 */
ls_status lsi_bench_keep(const ls_group *group, const lsi_table *table);

/* Returns the exit status of the command. */
int lsi_bench_run(const lsi_invocation *call, const lsi_bench_flags *flags,
                  const lsi_bench *bench, const void *args);

/*
 * Limits memory to so many bytes or, for 0, to what the machine could give; so
 * that what does not fit is a row that says so.
 */
void lsi_bench_set_budget(int64_t bytes);

#endif

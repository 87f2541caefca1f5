/* Lines below a table for an order that is in doubt. */
#ifndef LS_CLI_BENCH_DOUBT_H
#define LS_CLI_BENCH_DOUBT_H

#include <stdbool.h>
#include <stdio.h>

#include "report/table.h"

/* Names of the columns of a time: its mean, and its first and third quartile.
 */
typedef struct lsi_bench_time {
    const char *mean, *q1, *q3;
} lsi_bench_time;

/*
 * Whether the interquartile ranges of the two rows with the least mean overlap;
 * which rows these are, the fastest first.
 */
bool lsi_bench_overlap(const lsi_table *table, lsi_bench_time time,
                       size_t rows[2]);

/* Says so, and whether other processes keep the machine busy (base/busy.h). */
void lsi_bench_doubt(const lsi_table *table, lsi_bench_time time, FILE *stream);

#endif

/*
 * nccl-tests' last lines, below a table of collectives: how many elements were
 * wrong, and the mean bus bandwidth of all rows.
 */
#ifndef LS_CLI_BENCH_FOOT_H
#define LS_CLI_BENCH_FOOT_H

#include <stdio.h>

#include "report/table.h"

void lsi_bench_foot(const lsi_table *table, FILE *stream);

#endif

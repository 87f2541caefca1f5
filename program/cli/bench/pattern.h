/*
 * Data whose reductions are known exactly, for checking collectives.
 *
 * Element i of rank r is a small whole number that depends on r and on i
 * modulo a prime. Numbers are chosen so small that sums and products over all
 * ranks are exact in the element type; only averages may be rounded.
 */
#ifndef LS_CLI_BENCH_PATTERN_H
#define LS_CLI_BENCH_PATTERN_H

#include <stddef.h>

#include "lockstep/types.h"

typedef struct lsi_pattern lsi_pattern;

/* For `ranks` ranks. On success *out is freed by lsi_pattern_free. */
ls_status lsi_pattern_new(lsi_pattern **out, int ranks, ls_dtype dtype,
                          ls_reduce_op op);
void lsi_pattern_free(lsi_pattern **pattern);

/* data[i] = element first + i of a rank's data. */
void lsi_pattern_fill(const lsi_pattern *pattern, int rank, size_t first,
                      void *data, size_t count);

/*
 * How many of data[0..count-1] are not elements first, first + 1, ... of a
 * rank's data, or of the reduction over all ranks.
 */
size_t lsi_pattern_wrong(const lsi_pattern *pattern, int rank, size_t first,
                         const void *data, size_t count);
size_t lsi_pattern_wrong_reduced(const lsi_pattern *pattern, size_t first,
                                 const void *data, size_t count);

#endif

/*
 * lockstep bench attention: both methods over lengths and head sizes, in
 * batches of 8.
 */
#include "cli/bench/attention_sweep.h"

#define ROW(...) LSI_OPTION(lsi_bench_attention_rows, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_ATTENTION_ROWS("8", "256,1024,4096,8192,16384", "f32", "no"),
};

const lsi_bench lsi_bench_attention = {
    .command = {.name = "attention",
                .summary = "Time attention for several lengths and head sizes",
                .text = LSI_ATTENTION_TEXT,
                LSI_COMMAND_OPTIONS(options),
                .run = lsi_bench_run},
    LSI_ATTENTION_BENCH,
};

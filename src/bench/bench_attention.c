/*
 * lockstep bench attention: both methods over lengths and head sizes, in
 * batches of 8.
 */
#include "bench/attention_sweep.h"

#define ROW(...) LSI_OPTION(lsi_attention_args, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_ATTENTION_ROWS("8", "256,1024,4096,8192,16384", "f32", "no"),
};

static int run(const lsi_invocation *call)
{
    lsi_attention_args args;
    int exit_status;
    if (!lsi_cli_parse(call, &args, NULL, &exit_status))
        return exit_status;
    return lsi_bench_attention_rows(call, &args);
}

const lsi_command lsi_command_bench_attention = {
    .name = "attention",
    .summary = "Time attention over lengths and head sizes",
    .text = LSI_ATTENTION_TEXT,
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .run = run,
};

/*
 * lockstep bench flash: FlashAttention beside attention that stores its
 * scores, one causal sequence, up to lengths that only the first can do.
 */
#include "bench/attention_sweep.h"

#define ROW(...) LSI_OPTION(lsi_attention_args, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_ATTENTION_ROWS("1", "128,256,512,1024,2048,4096,8192,16384,32768,65536",
                       "f32,bf16", "yes"),
};

static int run(const lsi_invocation *call)
{
    lsi_attention_args args;
    int exit_status;
    if (!lsi_cli_parse(call, &args, NULL, &exit_status))
        return exit_status;
    return lsi_bench_attention_rows(call, &args);
}

const lsi_command lsi_command_bench_flash = {
    .name = "flash",
    .summary = "Time FlashAttention beside naive attention",
    .text = LSI_ATTENTION_TEXT,
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .run = run,
};

/*
 * lockstep bench flash: FlashAttention next to attention that stores its
 * scores. One causal sequence, up to lengths that only FlashAttention can do.
 */
#include "cli/bench/attention_sweep.h"

#define ROW(...) LSI_OPTION(lsi_bench_attention_rows, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_ATTENTION_ROWS("1", "128,256,512,1024,2048,4096,8192,16384,32768,65536",
                       "f32,bf16", "yes"),
};

const lsi_bench lsi_bench_flash = {
    .command = {.name = "flash",
                .summary = "Time causal FlashAttention and naive attention",
                .text = LSI_ATTENTION_TEXT,
                LSI_COMMAND_OPTIONS(options),
                .run = lsi_bench_run},
    LSI_ATTENTION_BENCH,
};

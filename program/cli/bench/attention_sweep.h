/*
 * The common part of `bench attention` and `bench flash`: both measure the same
 * rows, over different sizes.
 */
#ifndef LS_CLI_BENCH_ATTENTION_SWEEP_H
#define LS_CLI_BENCH_ATTENTION_SWEEP_H

#include "cli/bench/bench.h"
#include "cli/frame/dtype_flag.h"
#include "cli/frame/list.h"
#include "lockstep/attention.h"

enum { LSI_ATTENTION_MAX_METHODS = 8, LSI_ATTENTION_COLUMNS = 21 };

typedef struct lsi_bench_attention_rows {
    lsi_bench_common common;
    const char *batches, *lengths, *sizes, *dtypes, *causal, *methods;
    double seconds;
    int64_t budget;
    bool quick;
    lsi_list batch_list, length_list, size_list;
    lsi_dtype_list types;
    ls_attention_method method_list[LSI_ATTENTION_MAX_METHODS];
    int n_methods;
} lsi_bench_attention_rows;

/* The rows of such a command, to be used where ROW is defined. */
#define LSI_ATTENTION_ROWS(batch_, length_, dtype_, causal_)                   \
    LSI_BENCH_ROWS("1", "5", "100"),                                           \
        ROW(batches, LIST, "batch-size", 'b', "N,...", batch_,                 \
            "sequences per batch, with one head each"),                        \
        ROW(lengths, LIST, "length", 'l', "N,...", length_,                    \
            "sequence lengths, in tokens"),                                    \
        ROW(sizes, LIST, "head-size", 0, "N,...", "16,32,64,128",              \
            "sizes of a head (d)"),                                            \
        ROW(dtypes, LIST, "dtype", 0, "TYPE,...", dtype_,                      \
            "element types: f32, bf16"),                                       \
        ROW(causal, CHOICE, "causal", 0, "WHICH", causal_,                     \
            "causal attention: each query sees only the keys up to its "       \
            "position",                                                        \
            .choices = "yes|no|both"),                                         \
        ROW(methods, LIST, "impl", 0, "NAME,...", "flash,naive",               \
            "implementations: flash, naive"),                                  \
        ROW(seconds, REAL, "seconds", 0, "S", "10",                            \
            "stop measuring a case after S seconds, but not before three "     \
            "runs; 0: no limit",                                               \
            .min = 0, .max = 1e9),                                             \
        ROW(budget, BYTES, "budget", 0, "BYTES", "0",                          \
            "memory limit; 0: 90% of the available memory", .min = 0,          \
            .max = 1e18),                                                      \
        ROW(quick, BOOL, "quick", 0, NULL, NULL,                               \
            "measure lengths up to 2048 only, for at most 0.5 s per case")

#define LSI_ATTENTION_TEXT                                                     \
    "In use is the memory of a case after its first forward pass: inputs, "    \
    "outputs, saved values and workspace. Peak is the largest memory in use "  \
    "in addition to inputs and outputs. A case that does not fit in the "      \
    "budget is skipped: its status is 'out of memory', and its peak is the "   \
    "memory that it needs. GFLOP/s count 4 x batch x length^2 x d operations " \
    "for forward and 2.5 times that for backward, or half with causal "        \
    "attention. Some rows of each result are compared with sums in double "    \
    "precision. A difference makes the exit status 1."

extern const lsi_column lsi_attention_columns[LSI_ATTENTION_COLUMNS];

ls_status lsi_bench_attention_parse(void *opaque);
ls_status lsi_bench_attention_open(void *opaque);
ls_status lsi_bench_attention_measure(void *opaque, size_t i);
void lsi_bench_attention_describe(const void *opaque, size_t i, char *note,
                                  size_t bytes);

/* The rest of such a benchmark. */
#define LSI_ATTENTION_BENCH                                                    \
    .state_bytes = sizeof(lsi_bench_attention_rows),                           \
    .columns = lsi_attention_columns, .n_columns = LSI_ATTENTION_COLUMNS,      \
    .ranks = "1", .progress = "cases", .parse = lsi_bench_attention_parse,     \
    .open = lsi_bench_attention_open, .measure = lsi_bench_attention_measure,  \
    .describe = lsi_bench_attention_describe

#endif

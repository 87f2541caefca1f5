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
            "sequences at once, one head each"),                               \
        ROW(lengths, LIST, "length", 'l', "N,...", length_,                    \
            "queries and keys of a sequence"),                                 \
        ROW(sizes, LIST, "head-size", 0, "N,...", "16,32,64,128",              \
            "head sizes"),                                                     \
        ROW(dtypes, LIST, "dtype", 0, "TYPE,...", dtype_, "f32, bf16"),        \
        ROW(causal, CHOICE, "causal", 0, "WHICH", causal_,                     \
            "whether queries see only the keys up to their own",               \
            .choices = "yes|no|both"),                                         \
        ROW(methods, LIST, "impl", 0, "NAME,...", "flash,naive",               \
            "flash, naive"),                                                   \
        ROW(seconds, REAL, "seconds", 0, "S", "10",                            \
            "end the measured runs of a case after this time, but not before " \
            "three; 0: never",                                                 \
            .min = 0, .max = 1e9),                                             \
        ROW(budget, BYTES, "budget", 0, "BYTES", "0",                          \
            "memory to use at most; 0: what this machine has free", .min = 0,  \
            .max = 1e18),                                                      \
        ROW(quick, BOOL, "quick", 0, NULL, NULL,                               \
            "lengths up to 2048 only, half a second each")

#define LSI_ATTENTION_TEXT                                                     \
    "In use is what a case has taken when its first forward has run: "         \
    "inputs, outputs, what is saved, workspace. Peak is what was in use "      \
    "beyond inputs and outputs. A case that does not fit in the budget is "    \
    "not begun: its row says so, its peak is what it would need. GFLOP/s "     \
    "count 4 batch length^2 d operations for forward and 10 for backward, "    \
    "half of that if causal. Some rows of the result are compared with "       \
    "sums in double; a difference makes the exit status 1."

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

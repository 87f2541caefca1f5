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
            "head sizes (column d)"),                                          \
        ROW(dtypes, LIST, "dtype", 0, "TYPE,...", dtype_,                      \
            "element types: f32, bf16"),                                       \
        ROW(causal, CHOICE, "causal", 0, "WHICH", causal_,                     \
            "whether attention is causal (each query sees only the keys up "   \
            "to its position), or both in turn",                               \
            .choices = "yes|no|both"),                                         \
        ROW(methods, LIST, "impl", 0, "NAME,...", "flash,naive",               \
            "implementations: flash, naive"),                                  \
        ROW(seconds, REAL, "seconds", 0, "S", "10",                            \
            "stop measuring a case after S seconds and at least three runs; "  \
            "0: no limit",                                                     \
            .min = 0, .max = 1e9),                                             \
        LSI_BUDGET_ROW(budget, ""),                                            \
        ROW(quick, BOOL, "quick", 0, NULL, NULL,                               \
            "measure only lengths up to 2048, for at most 0.5 s per case")

#define LSI_ATTENTION_TEXT                                                     \
    "Bytes before backward: the memory in use after the first forward pass, "  \
    "for inputs, outputs, saved values and workspace. Peak bytes: the most "   \
    "memory in use at once, without inputs and outputs. If a case does not "   \
    "fit in the budget, its status is 'out of memory', and its peak is the "   \
    "memory that it needs. GFLOP/s: forward counts as 4 x batch x length^2 x " \
    "d operations, where d is the head size. Backward counts as 2.5 times "    \
    "the operations of forward. With causal attention, each counts as half. "  \
    "Some rows of each result are compared with a calculation in double "      \
    "precision; if they differ, the exit status is 1."

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

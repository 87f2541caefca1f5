/*
 * The flags for the log of a training run, for every command that trains, as
 * rows of its options:
 *
 *     struct args { lsi_run_outputs outputs; ... };
 *     #define ROW(...) LSI_OPTION(struct args, __VA_ARGS__)
 *     static const lsi_option options[] = {LSI_OUTPUT_ROWS("each epoch"), ...};
 */
#ifndef LS_CLI_COMMANDS_OUTPUT_FLAGS_H
#define LS_CLI_COMMANDS_OUTPUT_FLAGS_H

#include "cli/frame/command.h"
#include "report/run_log.h"

/* clang-format off */
#define LSI_OUTPUT_ROWS(metrics_lines)                                                  \
    ROW(outputs.quiet, BOOL, "quiet", 'q', NULL, NULL,                                  \
        "print only warnings and errors on stderr"),                                    \
    LSI_MARKDOWN_ROW(outputs.markdown),                                                 \
    ROW(outputs.metrics, STRING, "metrics", 0, "FILE", NULL,                            \
        "write one line of JSON for " metrics_lines),                                   \
    ROW(outputs.tensorboard, STRING, "tensorboard", 0, "DIR", NULL,                     \
        "write the numbers of each step and validation to this folder, for "            \
        "TensorBoard"),                                                                 \
    ROW(outputs.trace, STRING, "trace", 0, "DIR", NULL, LSI_TRACE_HELP),                \
    ROW(outputs.trace_steps, STRING, "trace-steps", 0, "FIRST:COUNT", NULL,             \
        "trace only these steps, such as 100:5 for steps 100 to 104"),                  \
    ROW(outputs.memory, STRING, "record-memory", 0, "DIR", NULL,                        \
        LSI_RECORD_MEMORY_HELP),                                                        \
    ROW(outputs.prometheus, STRING, "prometheus", 0, "FILE", NULL,                      \
        "update this file with the newest numbers, in Prometheus' text format")
/* clang-format on */

#endif

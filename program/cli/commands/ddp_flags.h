/*
 * The flags of everything that trains on several ranks: how gradients travel.
 *
 *     struct args { lsi_ddp_flags ddp; ... };
 *     #define ROW(...) LSI_OPTION(struct args, __VA_ARGS__)
 *     static const lsi_option options[] = {LSI_DDP_ROWS(ddp), ...};
 */
#ifndef LS_CLI_COMMANDS_DDP_FLAGS_H
#define LS_CLI_COMMANDS_DDP_FLAGS_H

#include "cli/frame/command.h"
#include "lockstep/parallel.h"
#include "report/run_log.h"
#include "train/ddp_choice.h"

typedef struct lsi_ddp_flags {
    const char *strategy;
    double bucket_mb; /* 0: not given */
    int64_t prefetch_layers;
    const char *shard_over; /* NULL: not given */
} lsi_ddp_flags;

/* "auto|naive|flat|..." */
extern const char lsi_strategy_choices[];

#define LSI_DDP_ROWS(field)                                                    \
    ROW(field.strategy, CHOICE, "strategy", 0, "NAME", "flat",                 \
        "how gradients are exchanged; all strategies give the same weights. "  \
        "auto measures the strategies that fit in memory and uses the "        \
        "fastest; shared keeps one copy of the weights per node, fsdp "        \
        "divides one over all nodes (docs/concepts/parallel.md)",              \
        .choices = lsi_strategy_choices),                                      \
        ROW(field.bucket_mb, REAL, "bucket-mb", 0, "X", NULL,                  \
            "for strategies with buckets: largest amount of gradients per "    \
            "collective, in MB (default: 25 for fsdp over several nodes, "     \
            "else all gradients at once)",                                     \
            .min = 1e-6, .max = 1e9),                                          \
        LSI_PREFETCH_LAYERS_ROW(field.prefetch_layers),                        \
        LSI_SHARD_OVER_ROW(field.shard_over)

/* The flags of `fsdp` over several nodes, also without the others. */
#define LSI_PREFETCH_LAYERS_ROW(field)                                         \
    ROW(field, INT, "prefetch-layers", 0, "N", "2",                            \
        "with fsdp over several nodes: layers whose weights are gathered "     \
        "ahead of use; 0: none",                                               \
        .min = 0, .max = 1000)
#define LSI_SHARD_OVER_ROW(field)                                              \
    ROW(field, STRING, "shard-over", 0, "all|K", NULL,                         \
        "with fsdp: nodes that together hold one copy of the weights. Groups " \
        "of K nodes each hold one; K divides the nodes into 1, 2, 4, ... "     \
        "groups (default: all)")

/* --strategy of commands that use a trained model. */
#define LSI_USE_STRATEGY_ROW(field)                                            \
    ROW(field, CHOICE, "strategy", 0, "NAME", "flat",                          \
        "how ranks hold the weights: with flat each rank has all of them; "    \
        "with fsdp a node has one copy or, over several nodes, its part "      \
        "(docs/how-to/language-models.md)",                                    \
        .choices = "flat|fsdp")

/* Parses --shard-over: 0 for all nodes. NULL is the default. */
ls_status lsi_cli_shard_over(const char *text, size_t *out);

/* The value of ls_ddp_options for the flag. */
size_t lsi_cli_prefetch_layers(int64_t flag);

/* The options that the flags stand for, or which flags contradict each other.
 * A strategy that is NULL is the default; "auto" is not known here. */
ls_status lsi_cli_ddp_parse(const lsi_ddp_flags *flags, ls_ddp_options *out);

/*
 * The options of the flags; *automatic: their strategy is to be chosen. If the
 * flags contradict each other: prints the usage error, sets *exit_status and
 * returns false.
 */
bool lsi_cli_ddp_options(const lsi_ddp_flags *flags, ls_ddp_options *out,
                         bool *automatic, int *exit_status);

/* Call it before the log of a run is opened: notes the effects of a choice. */
void lsi_cli_expect_strategy(lsi_run_about *about, const lsi_ddp_choice *choice,
                             int64_t choices);

/* Logs the chosen strategy, if one was chosen, and the reason. */
ls_status lsi_cli_log_strategy(lsi_run_log *log, const lsi_ddp_choice *choice);

/* The slices of the global batch (train/slices.h). */
#define LSI_SLICES_ROW(field, usual)                                           \
    ROW(field, INT, "slices", 0, "N", NULL,                                    \
        "number of slices of the global batch; must be a multiple of the "     \
        "number of ranks. Runs on 1, 2, 4, ... ranks train the same weights "  \
        "if they use the same number of slices and the same global batch "     \
        "size (default: " usual ")",                                           \
        .min = 1, .max = 65536)

#endif

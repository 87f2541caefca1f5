/* lockstep plan --size: time and memory of training a language model. */
#ifndef LS_CLI_COMMANDS_PLAN_TRAINING_H
#define LS_CLI_COMMANDS_PLAN_TRAINING_H

#include "cli/commands/plan_measure.h"
#include "cli/frame/command.h"
#include "plan/facts.h"

/* 0, NULL: not given. */
typedef struct lsi_plan_flags {
    const char *model, *strategy, *dtype, *json, *sweep, *shard_over;
    int64_t ranks, nodes, ranks_per_node, batch, context;
    int64_t prefetch_layers; /* 2: not given */
    int64_t layers, d_model, d_ff, heads, vocabulary, slices;
    double bucket_mb, device_gb, tflops, device_gbps, link_gbps, link_us;
    bool recompute, calibrate, verify, force, markdown;
} lsi_plan_flags;

/* Prints the plan, and writes it as JSON. */
ls_status lsi_plan_training(const lsi_invocation *call,
                            const lsi_plan_flags *flags);

/* Plans without printing; known measurements are not made again. */
ls_status lsi_plan_predict(const lsi_plan_flags *flags,
                           lsi_plan_known *measured, lsi_facts *out);

#endif

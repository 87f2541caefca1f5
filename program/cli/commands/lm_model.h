/*
 * A trained language model that a command uses, and its tokenizer.
 *
 *     struct args { lsi_lm_model_flags model; ... };
 *     #define ROW(...) LSI_OPTION(struct args, __VA_ARGS__)
 *     static const lsi_option options[] = {LSI_LM_MODEL_ROWS(model), ...};
 */
#ifndef LS_CLI_COMMANDS_LM_MODEL_H
#define LS_CLI_COMMANDS_LM_MODEL_H

#include "cli/commands/ddp_flags.h"
#include "cli/frame/command.h"
#include "cli/frame/lm_flags.h"
#include "lockstep/group.h"
#include "lockstep/tokenizer.h"
#include "model/nets/lm.h"

typedef struct lsi_lm_model_flags {
    const char *model, *size, *tokenizer, *strategy;
    int64_t heads, prefetch_layers;
} lsi_lm_model_flags;

#define LSI_LM_MODEL_ROWS(field)                                               \
    ROW(field.model, STRING, "weights", 0, "PATH", NULL,                       \
        "model to load: the result folder of `lockstep train lm`, the file "   \
        "that its --save wrote, a checkpoint, or a folder of "                 \
        "--checkpoint-dir (the newest intact checkpoint is loaded); or a "     \
        "file or folder with published weights of GPT-2 or Llama"),            \
        ROW(field.size, CHOICE, "size", 0, "NAME", NULL,                       \
            "model size (needed only if the file does not record its size; "   \
            "published weights do not need this flag)",                        \
            .choices = &lsi_lm_size_choices[1]),                               \
        ROW(field.heads, INT, "heads", 0, "N", NULL,                           \
            "number of attention heads; needed for GPT-2 weights of an "       \
            "unpublished size without a config.json",                          \
            .min = 1, .max = 1 << 20),                                         \
        ROW(field.tokenizer, STRING, "tokenizer", 0, "PATH", NULL,             \
            "tokenizer.json, or GPT-2's vocab.json next to its merges.txt "    \
            "(default: the tokenizer in the model's file, or the one in its "  \
            "folder)"),                                                        \
        LSI_USE_STRATEGY_ROW(field.strategy),                                  \
        LSI_PREFETCH_LAYERS_ROW(field.prefetch_layers)

typedef struct lsi_lm_model {
    lsi_lm lm;
    ls_ddp *ddp; /* divides the weights, or NULL */
    int64_t vocabulary, context;
    bool bytes; /* are its tokens, without a tokenizer */
    ls_tokenizer *tokenizer;
} lsi_lm_model;

/*
 * Opens the model of the flags. Rank 0 prints its file on stderr, if the flags
 * do not name it. Collective; if it fails with *agreed true, all ranks have the
 * same error. To be closed also after an error, before the group.
 */
ls_status lsi_cli_lm_open(const lsi_lm_model_flags *flags, ls_group *group,
                          lsi_lm_model *out, bool *agreed);
void lsi_cli_lm_close(lsi_lm_model *model);

#endif

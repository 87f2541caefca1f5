/*
 * A trained language model that a command uses, and its tokenizer.
 *
 *     struct args { lsi_lm_model_flags model; ... };
 *     #define ROW(...) LSI_OPTION(struct args, __VA_ARGS__)
 *     static const lsi_option options[] = {LSI_LM_MODEL_ROWS(model), ...};
 */
#ifndef LS_CLI_COMMANDS_LM_MODEL_H
#define LS_CLI_COMMANDS_LM_MODEL_H

#include "cli/frame/command.h"
#include "cli/frame/lm_flags.h"
#include "lockstep/tokenizer.h"
#include "model/nets/lm.h"

typedef struct lsi_lm_model_flags {
    const char *model, *size, *tokenizer;
    int64_t heads;
} lsi_lm_model_flags;

#define LSI_LM_MODEL_ROWS(field)                                               \
    ROW(field.model, STRING, "weights", 0, "PATH", NULL,                       \
        "what `lockstep train lm` wrote: its folder, a file of --save, a "     \
        "--checkpoint-dir, of which the newest intact one is read, or one "    \
        "checkpoint; or published weights of GPT-2 or Llama, a file or the "   \
        "folder of it"),                                                       \
        ROW(field.size, CHOICE, "size", 0, "NAME", NULL,                       \
            "of the model, for a file that does not say it; published "        \
            "weights need none",                                               \
            .choices = &lsi_lm_size_choices[1]),                               \
        ROW(field.heads, INT, "heads", 0, "N", NULL,                           \
            "of attention, for GPT-2 weights of a size that was not "          \
            "published and without a config.json",                             \
            .min = 1, .max = 1 << 20),                                         \
        ROW(field.tokenizer, STRING, "tokenizer", 0, "PATH", NULL,             \
            "a tokenizer.json, or GPT-2's vocab.json next to its merges.txt "  \
            "(default: the one that the model's file keeps, or the one in "    \
            "its folder, if there is one)")

typedef struct lsi_lm_model {
    lsi_lm lm;
    int64_t vocabulary, context;
    bool bytes; /* are its tokens, without a tokenizer */
    ls_tokenizer *tokenizer;
} lsi_lm_model;

/*
 * Opens the model of the flags; `tells`: prints its file on stderr, if the
 * flags do not name it. Local. To be closed also after an error.
 */
ls_status lsi_cli_lm_open(const lsi_lm_model_flags *flags, bool tells,
                          lsi_lm_model *out);
void lsi_cli_lm_close(lsi_lm_model *model);

#endif

/*
 * The input and output of `lockstep generate`: prompts as the tokens of a
 * model, and their continuations as bytes, as text by a tokenizer, or as
 * numbers.
 */
#ifndef LS_CLI_COMMANDS_CONTINUATIONS_H
#define LS_CLI_COMMANDS_CONTINUATIONS_H

#include "base/partition.h"
#include "cli/commands/lm_model.h"

typedef struct lsi_continuation {
    int64_t *tokens; /* of the prompt */
    int64_t n_tokens;
    ls_decoder *decoder; /* with a tokenizer */
    char *written; /* with several prompts: the text to write at the end */
    size_t bytes, capacity;
    bool begun; /* there is a number before the next */
} lsi_continuation;

/* All zero but for the model and the group; freed in any case. */
typedef struct lsi_continuations {
    const lsi_lm_model *model;
    ls_group *group;
    lsi_continuation *items; /* of all ranks */
    int64_t n, room;
    lsi_range own; /* those that this rank continues */
} lsi_continuations;

ls_status lsi_continuations_add(lsi_continuations *texts, const char *prompt);

/* A prompt for each line of a file. */
ls_status lsi_continuations_read(lsi_continuations *texts, const char *path);

/* Chooses this rank's prompts, and writes them where they are text. */
ls_status lsi_continuations_begin(lsi_continuations *texts);

/*
 * Writes a token of one of them as soon as it makes whole characters, of
 * several at the end; for lsi_generation.emit.
 */
ls_status lsi_continuations_emit(void *context, int64_t index, int64_t token);

/* Ends the texts of this rank. Local. */
ls_status lsi_continuations_end(lsi_continuations *texts);

/* Rank 0 writes what is not written yet, of all ranks. Collective. */
ls_status lsi_continuations_print(lsi_continuations *texts);

void lsi_continuations_free(lsi_continuations *texts);

#endif

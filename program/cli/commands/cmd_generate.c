/*
 * lockstep generate: text, or tokens, from a trained language model.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"
#include "cli/commands/continuations.h"
#include "cli/commands/lm_model.h"
#include "cli/frame/bits_flag.h"
#include "cli/frame/command.h"
#include "cli/frame/ranks.h"
#include "comm/api/outcome.h"
#include "train/jobs/generate.h"

typedef struct args {
    lsi_rank_flags ranks;
    lsi_lm_model_flags model;
    lsi_option_texts prompt;
    const char *prompts, *bits;
    int64_t tokens, top_k, seed;
    double temperature;
    bool ignore_end;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_RANK_ROWS(ranks, "1"),
    LSI_LM_MODEL_ROWS(model),
    LSI_BITS_ROW(bits),
    ROW(prompt, TEXTS, "prompt", 'p', "TEXT", NULL,
        "text to continue (default: a newline). A model that has no tokenizer "
        "and is not a byte model needs token numbers instead, such as "
        "464,3290. Repeat the flag to continue several prompts at once; each "
        "prompt then gets one line of the output"),
    ROW(prompts, STRING, "prompts", 0, "FILE", NULL,
        "file with one prompt per line; all prompts are continued at once, and "
        "each gets one line of the output"),
    ROW(tokens, INT, "max-new-tokens", 0, "N", "200",
        "number of tokens to generate", .min = 0, .max = 1e9),
    ROW(temperature, REAL, "temperature", 0, "X", "0.8",
        "sampling temperature; values below 1 make likely tokens more likely. "
        "0: always choose the most likely token",
        .min = 0, .max = 1e6),
    ROW(top_k, INT, "top-k", 0, "K", "0",
        "sample only from the K most likely tokens; 0: from all tokens",
        .min = 0, .max = 1e9),
    ROW(ignore_end, BOOL, "ignore-end", 0, NULL, NULL,
        "do not end a text at the end-of-text token"),
    ROW(seed, INT, "seed", 's', "N", "0", "random seed for the sampling",
        .min = 0, .max = 9e15),
};

typedef struct session {
    const args *args;
    ls_group *group;
    lsi_lm_model model;
    lsi_continuations texts;
    bool agreed; /* all ranks have the same error */
} session;

static ls_status read_prompts(const args *a, lsi_continuations *texts)
{
    if (a->prompts != NULL)
        return lsi_continuations_read(texts, a->prompts);
    if (a->prompt.n == 0)
        return lsi_continuations_add(texts, "\n");
    for (size_t i = 0; i < a->prompt.n; i++)
        LS_TRY(lsi_continuations_add(texts, a->prompt.all[i]));
    return LS_OK;
}

/* Local. */
static ls_status begin(session *s, lsi_prompt **prompts)
{
    lsi_continuations *const texts = &s->texts;
    LS_TRY(read_prompts(s->args, texts));
    LS_TRY(lsi_alloc(prompts, (size_t)texts->n * sizeof(lsi_prompt),
                     LS_MEMORY_DATA, "the prompts"));
    for (int64_t i = 0; i < texts->n; i++)
        (*prompts)[i] =
            (lsi_prompt){texts->items[i].tokens, texts->items[i].n_tokens};
    return lsi_continuations_begin(texts);
}

static ls_status generate(session *s, const lsi_prompt *prompts)
{
    const args *const a = s->args;
    const lsi_lm_model *const m = &s->model;
    const lsi_range own = s->texts.own;
    const int64_t end =
        m->tokenizer != NULL ? ls_tokenizer_end(m->tokenizer) : -1;
    const lsi_generation generation = {
        .prompts = prompts + own.begin,
        .n_prompts = (int64_t)lsi_range_size(own),
        .first = (int64_t)own.begin,
        .tokens = a->tokens,
        .limit = m->bytes               ? LSI_BYTE_TOKENS
                 : m->tokenizer != NULL ? ls_tokenizer_vocabulary(m->tokenizer)
                                        : 0,
        .has_end = end >= 0 && !a->ignore_end,
        .end = end,
        .sampling = {.temperature = a->temperature,
                     .top_k = a->top_k,
                     .seed = (uint64_t)a->seed},
        .emit = lsi_continuations_emit,
        .context = &s->texts,
        .group = s->group,
        .agreed = &s->agreed};
    return lsi_generate(m->lm.transformer, &generation);
}

static ls_status run_all(session *s)
{
    lsi_prompt *prompts = NULL;
    LS_TRY(lsi_cli_lm_open(&s->args->model, s->group, &s->model, &s->agreed));
    ls_status status =
        lsi_share_outcome(s->group, begin(s, &prompts), &s->agreed);
    if (status == LS_OK)
        status = generate(s, prompts);
    lsi_free(prompts);
    LS_TRY(status);
    LS_TRY(lsi_share_outcome(s->group, lsi_continuations_end(&s->texts),
                             &s->agreed));
    return lsi_continuations_print(&s->texts);
}

static int run_generate(const lsi_invocation *call)
{
    args a;
    int exit_status;
    session s = {.args = &a};
    if (!lsi_cli_parse(call, &a, NULL, &exit_status))
        return exit_status;
    if (a.model.model == NULL)
        return lsi_cli_usage("--weights PATH is missing");
    if (a.prompt.n > 0 && a.prompts != NULL)
        return lsi_cli_usage(
            "--prompt and --prompts exclude each other; give one of them");
    if (!lsi_cli_set_bits(a.bits, NULL, &exit_status) ||
        !lsi_cli_as_rank(call, &a.ranks, 1, &exit_status))
        return exit_status;
    if (lsi_cli_open_group(a.ranks.threads, &s.group) != LS_OK)
        return lsi_cli_rank_error();
    s.texts = (lsi_continuations){.model = &s.model, .group = s.group};
    const bool first = ls_group_rank(s.group) == 0;
    const ls_status status = run_all(&s);
    exit_status = lsi_cli_rank_exit(status, s.agreed && !first);
    lsi_continuations_free(&s.texts);
    lsi_cli_lm_close(&s.model);
    ls_group_close(&s.group);
    return exit_status;
}

const lsi_command lsi_command_generate = {
    .name = "generate",
    .summary = "Generate text with a trained language model",
    .text =
        "The model predicts each next token from the previous tokens. A text "
        "may become longer than the context of the model. The same seed gives "
        "the same "
        "text. A byte model, or a model with a tokenizer, prints the prompt "
        "and then the new text, character by character. Other models print "
        "the numbers of the new tokens. If the tokenizer has an end-of-text "
        "token, a text ends there. The ranks of -n divide the prompts, and "
        "rank 0 prints all texts. With --strategy fsdp over M nodes, each new "
        "token of all prompts costs network traffic. A node that has prompts "
        "receives 4 (M-1)/M bytes per parameter, or 2 (M-1)/M if the file has "
        "a half type.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_generate,
};

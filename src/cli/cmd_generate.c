/*
 * lockstep generate: text, or tokens, from a trained language model.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "cli/lm_flags.h"
#include "command/command.h"
#include "command/ranks.h"
#include "nn/transformer.h"
#include "train/checkpoint/find.h"
#include "train/jobs/generate.h"
#include "train/models/lm.h"

typedef struct args {
    const char *model, *size, *prompt;
    int64_t heads, tokens, top_k, seed, threads;
    double temperature;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(model, STRING, "model", 'm', "PATH", NULL,
        "what `lockstep train lm` wrote: a file of --save, a --checkpoint-dir, "
        "of which the newest intact one is read, or one checkpoint; or "
        "published weights"),
    ROW(size, CHOICE, "size", 0, "NAME", NULL,
        "of the model, for a file that does not say it; published GPT-2 "
        "weights need none",
        .choices = &lsi_lm_size_choices[1]),
    ROW(heads, INT, "heads", 0, "N", NULL,
        "of attention, for GPT-2 weights of a size that was not published and "
        "without a config.json",
        .min = 1, .max = 1 << 20),
    ROW(prompt, STRING, "prompt", 'p', "TEXT", NULL,
        "text to continue (default: a new line); for a model of other tokens "
        "than bytes their numbers: 464,3290"),
    ROW(tokens, INT, "tokens", 't', "N", "200", "tokens to generate", .min = 0,
        .max = 1e9),
    ROW(temperature, REAL, "temperature", 0, "X", "0.8",
        "below 1 likely tokens become more likely; 0: always the most likely",
        .min = 0, .max = 1e6),
    ROW(top_k, INT, "top-k", 0, "K", "0",
        "draw from the K most likely tokens only; 0: from all", .min = 0,
        .max = 1e9),
    ROW(seed, INT, "seed", 's', "N", "0", "seed of the draws", .min = 0,
        .max = 9e15),
    LSI_THREADS_ROW(threads),
};

/* ---- the model ----------------------------------------------------------- */

typedef struct model {
    lsi_lm lm;
    int64_t vocabulary;
    bool bytes; /* are its tokens */
} model;

static ls_status read_config(const args *a, const char *path,
                             ls_transformer_config *out)
{
    if (a->size == NULL)
        return lsi_transformer_read_config(path, a->heads, out);
    LS_TRY(ls_transformer_size(a->size, out));
    out->heads = a->heads > 0 ? a->heads : out->heads;
    return LS_OK;
}

static ls_status open_model(const args *a, model *m)
{
    ls_transformer_config config;
    lsi_path path;
    LS_TRY(lsi_checkpoint_weights(a->model, &path));
    LS_TRY(read_config(a, path.text, &config));
    LS_TRY(lsi_lm_has_bytes(path.text, config.vocabulary, &m->bytes));
    m->vocabulary = config.vocabulary;
    LS_TRY(lsi_lm_open(&m->lm, &config, path.text));
    if (strcmp(path.text, a->model) != 0)
        fprintf(stderr, "weights of '%s'\n", path.text);
    return LS_OK;
}

/* ---- the prompts --------------------------------------------------------- */

/* Tokens and the text that is to stand before what follows. */
typedef struct prompt {
    int64_t *tokens;
    int64_t n;
} prompt;

static ls_status take_bytes(const char *text, int64_t vocabulary, prompt *out)
{
    for (; text[out->n] != '\0'; out->n++) {
        const unsigned char byte = (unsigned char)text[out->n];
        if (byte >= vocabulary)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "--prompt has the byte %d; the model's tokens are "
                            "bytes below %" PRId64,
                            byte, vocabulary);
        out->tokens[out->n] = byte;
    }
    return LS_OK;
}

static ls_status take_numbers(const char *text, int64_t vocabulary, prompt *out)
{
    for (const char *next = text;; next++) {
        char *end;
        errno = 0;
        const long long token = strtoll(next, &end, 10);
        if (end == next || errno != 0 || token < 0 || token >= vocabulary ||
            (*end != ',' && *end != '\0'))
            return lsi_fail(LS_ERR_ARGUMENT,
                            "the model's tokens are numbers below %" PRId64
                            "; --prompt should be some of them, as 464,3290, "
                            "or text, with --tokenizer FILE",
                            vocabulary);
        out->tokens[out->n++] = token;
        if (*end == '\0')
            return LS_OK;
        next = end;
    }
}

/* *out is freed by lsi_free of its tokens. */
static ls_status read_prompt(const char *text, const model *m, prompt *out)
{
    void *block = NULL;
    if (text[0] == '\0')
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "--prompt is empty; there must be something to continue "
            "from");
    LS_TRY(lsi_alloc(&block, strlen(text) * sizeof(int64_t), LS_MEMORY_DATA,
                     "the prompt"));
    out->tokens = block;
    return m->bytes ? take_bytes(text, m->vocabulary, out)
                    : take_numbers(text, m->vocabulary, out);
}

/* ---- writing ------------------------------------------------------------- */

/* What nobody can read need not be drawn. */
static ls_status flush(void)
{
    return fflush(stdout) == 0
               ? LS_OK
               : lsi_fail_errno(LS_ERR_IO, "cannot write to standard "
                                           "output");
}

static ls_status emit_byte(void *context, int64_t index, int64_t token)
{
    (void)context;
    (void)index;
    putchar((int)token);
    return flush();
}

static ls_status emit_number(void *context, int64_t index, int64_t token)
{
    bool *begun = context;
    (void)index;
    printf("%s%" PRId64, *begun ? "," : "", token);
    *begun = true;
    return flush();
}

static ls_status write_tokens(const args *a, const model *m, prompt *p)
{
    bool begun = false;
    const char *text = a->prompt != NULL ? a->prompt : "\n";
    LS_TRY(read_prompt(text, m, p));
    const lsi_prompt prompts[] = {{p->tokens, p->n}};
    const lsi_generation generation = {
        .prompts = prompts,
        .n_prompts = 1,
        .tokens = a->tokens,
        .limit = m->bytes ? LSI_BYTE_TOKENS : 0,
        .sampling = {.temperature = a->temperature,
                     .top_k = a->top_k,
                     .seed = (uint64_t)a->seed},
        .emit = m->bytes ? emit_byte : emit_number,
        .context = &begun};
    if (m->bytes)
        fputs(text, stdout);
    LS_TRY(lsi_generate(m->lm.transformer, &generation));
    putchar('\n');
    return flush();
}

static int run(const lsi_invocation *call)
{
    args a;
    int exit_status;
    model m = {.vocabulary = 0};
    prompt p = {0};
    if (!lsi_cli_parse(call, &a, NULL, &exit_status))
        return exit_status;
    if (a.model == NULL)
        return lsi_cli_usage("%s: --model PATH is missing", call->argv[0]);
    lsi_cli_set_threads(a.threads, lsi_cpus_available());
    ls_status status = open_model(&a, &m);
    if (status == LS_OK)
        status = write_tokens(&a, &m, &p);
    lsi_free(p.tokens);
    lsi_lm_free(&m.lm);
    return status == LS_OK ? 0 : lsi_cli_error();
}

const lsi_command lsi_command_generate = {
    .name = "generate",
    .summary = "Write text with a trained language model",
    .text = "The model sees the tokens so far, as many of the last as its "
            "context holds, and draws the next. Equal seeds give equal text. "
            "A model of bytes writes the prompt and then text, any other the "
            "numbers of the tokens that follow the prompt.",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .run = run,
};

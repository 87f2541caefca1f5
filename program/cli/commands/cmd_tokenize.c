/*
 * lockstep tokenize: texts to a file of tokens, or to a new tokenizer.
 */
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/memory.h"
#include "base/printable.h"
#include "cli/frame/command.h"
#include "cli/frame/ranks.h"
#include "comm/api/outcome.h"
#include "input/text/token_file.h"
#include "report/progress.h"
#include "report/result.h"

typedef struct args {
    lsi_rank_flags ranks;
    const char *tokenizer, *data, *out;
    bool train, special, end_of_text;
    int64_t vocabulary, least;
    const char *pattern, *special_tokens;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(tokenizer, STRING, "tokenizer", 0, "FILE", NULL,
        "tokenizer to use: a tokenizer.json, or a folder with a tokenizer.json "
        "or with GPT-2's vocab.json and merges.txt"),
    ROW(data, STRING, "data", 0, "FILES", NULL,
        "UTF-8 text: files, or quoted patterns such as 'books/*.txt', "
        "separated by commas or blanks"),
    ROW(out, STRING, "out", 'o', "FILE", NULL,
        "output file with tokens in llm.c's format (`lockstep train lm` reads "
        "this file if the name ends in .bin); with --train, a tokenizer.json"),
    ROW(special, BOOL, "special", 0, NULL, NULL,
        "add the special tokens that the tokenizer defines for the beginning "
        "and end of a text to each file"),
    ROW(end_of_text, BOOL, "end-of-text", 0, NULL, NULL,
        "add the end-of-text token after each file"),
    ROW(train, BOOL, "train", 0, NULL, NULL,
        "train a new tokenizer on the data, instead of encoding the data"),
    ROW(vocabulary, INT, "vocab-size", 0, "N", "32768",
        "vocabulary size of the new tokenizer", .min = 256, .max = 1 << 22),
    ROW(least, INT, "min-count", 0, "N", "2",
        "merge only pairs of tokens that occur at least N times", .min = 1,
        .max = 1e15),
    ROW(pattern, CHOICE, "pattern", 0, "NAME", "gpt2",
        "how the new tokenizer splits text into words: as GPT-2 or as Llama 3",
        .choices = "gpt2|llama3"),
    ROW(special_tokens, LIST, "special-tokens", 0, "TOKEN,...", "<|endoftext|>",
        "special tokens of the new tokenizer; they get the lowest token "
        "numbers"),
    LSI_RANK_ROWS(ranks, "1"),
};

/* ---- lists of names ------------------------------------------------------ */

typedef struct names {
    char **all; /* each from malloc */
    size_t n, room;
} names;

static void free_names(names *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->all[i]);
    free(list->all);
}

static ls_status add_name(names *list, const char *name)
{
    if (!lsi_grow_array(&list->all, list->n, &list->room, sizeof(char *)) ||
        (list->all[list->n] = strdup(name)) == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for a list of names");
    list->n++;
    return LS_OK;
}

/* A file of that very name, or all that fit a pattern. */
static ls_status add_files(names *list, const char *pattern)
{
    glob_t found;
    ls_status status = LS_OK;
    if (access(pattern, F_OK) == 0)
        return add_name(list, pattern);
    if (glob(pattern, 0, NULL, &found) != 0)
        return lsi_fail(LS_ERR_NOT_FOUND, "file '%s' does not exist", pattern);
    for (size_t i = 0; i < found.gl_pathc && status == LS_OK; i++)
        status = add_name(list, found.gl_pathv[i]);
    globfree(&found);
    return status;
}

/* Words between commas. */
static ls_status each_word(names *list, const char *text,
                           ls_status (*add)(names *list, const char *word))
{
    char *copy = strdup(text), *rest = copy, *word;
    ls_status status = LS_OK;
    if (copy == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for a list of names");
    while (status == LS_OK && (word = strsep(&rest, ",")) != NULL)
        if (word[0] != '\0')
            status = add(list, word);
    free(copy);
    return status;
}

static ls_status find_files(const lsi_invocation *call, const args *a, int rest,
                            names *list)
{
    if (a->data != NULL && access(a->data, F_OK) == 0)
        LS_TRY(add_name(list, a->data));
    else if (a->data != NULL)
        LS_TRY(each_word(list, a->data, add_files));
    for (int i = rest; i < call->argc; i++)
        LS_TRY(add_files(list, call->argv[i]));
    return list->n > 0
               ? LS_OK
               : lsi_fail(LS_ERR_ARGUMENT,
                          "no input: give files of text with --data FILES");
}

static double seconds_since(uint64_t begun)
{
    return (double)(lsi_clock_ns() - begun) * 1e-9;
}

/* ---- encoding ------------------------------------------------------------ */

/* Called on one rank only. */
static void show(void *context, size_t done, size_t all)
{
    lsi_progress_bar *const bar = context;
    if (bar->label == NULL)
        lsi_progress_begin(bar, stderr, "tokenize", (int64_t)all);
    lsi_progress_update(bar, (int64_t)done, NULL);
}

static void print_summary(const args *a, const names *files,
                          const lsi_tokenize_result *r, double seconds)
{
    printf("%" PRIu64
           " tokens from %zu %s, %.3g MB of text, %.2f bytes per token\n",
           r->tokens, files->n, files->n == 1 ? "file" : "files",
           (double)r->bytes * 1e-6,
           r->tokens > 0 ? (double)r->bytes / (double)r->tokens : 0.0);
    printf("%.3g s, %.4g tokens/s, %.3g MB/s\n", seconds,
           (double)r->tokens / seconds, (double)r->bytes / seconds * 1e-6);
    printf("saved '%s' (u%zu)\n", lsi_printable_of(a->out).text, 8 * r->width);
}

static ls_status encode(const args *a, ls_group *group, const names *files)
{
    ls_tokenizer *tokenizer = NULL;
    lsi_progress_bar bar = {.label = NULL};
    lsi_tokenize_result result = {.bytes = 0};
    bool agreed = false;
    LS_TRY(lsi_share_outcome(group, ls_tokenizer_open(&tokenizer, a->tokenizer),
                             &agreed));
    const lsi_tokenize_job job = {.tokenizer = tokenizer,
                                  .paths = (const char *const *)files->all,
                                  .n = files->n,
                                  .out = a->out,
                                  .special = a->special,
                                  .end_tokens = a->end_of_text,
                                  .progress = show,
                                  .context = &bar};
    const uint64_t begun = lsi_clock_ns();
    const ls_status status = lsi_tokenize_files(group, &job, &result);
    if (bar.label != NULL)
        lsi_progress_end(&bar);
    if (status == LS_OK && ls_group_rank(group) == 0)
        print_summary(a, files, &result, seconds_since(begun));
    ls_tokenizer_close(&tokenizer);
    return status;
}

/* ---- training ------------------------------------------------------------ */

static ls_status save(const args *a, const ls_tokenizer *tokenizer,
                      double seconds)
{
    LS_TRY(ls_tokenizer_save(tokenizer, a->out));
    printf("learned a vocabulary of %" PRId64 " tokens in %.3g s\nsaved '%s'\n",
           ls_tokenizer_vocabulary(tokenizer), seconds,
           lsi_printable_of(a->out).text);
    return LS_OK;
}

static ls_status train(const args *a, ls_group *group, const names *files)
{
    static const char *const none[] = {NULL};
    names special = {.n = 0};
    ls_tokenizer *tokenizer = NULL;
    bool agreed = false;
    const uint64_t begun = lsi_clock_ns();
    ls_status status = each_word(&special, a->special_tokens, add_name);
    if (status == LS_OK && ls_group_rank(group) == 0)
        status = lsi_result_check_file(a->out);
    status = lsi_share_outcome(group, status, &agreed);
    if (status == LS_OK)
        status = ls_tokenizer_new_trained(
            &tokenizer, group, (const char *const *)files->all, files->n,
            &(ls_tokenizer_training){
                .vocabulary = a->vocabulary,
                .least = a->least,
                .pattern = strcmp(a->pattern, "gpt2") == 0 ? LS_PATTERN_GPT2
                                                           : LS_PATTERN_LLAMA3,
                .special =
                    special.n > 0 ? (const char *const *)special.all : none,
                .n_special = special.n});
    free_names(&special);
    if (status == LS_OK)
        status = lsi_share_outcome(
            group,
            ls_group_rank(group) == 0 ? save(a, tokenizer, seconds_since(begun))
                                      : LS_OK,
            &agreed);
    ls_tokenizer_close(&tokenizer);
    return status;
}

/* ---- all ----------------------------------------------------------------- */

static bool check(const args *a, int *exit_status)
{
    const char *missing = NULL;
    if (a->train == (a->tokenizer != NULL))
        missing = a->train ? "either --train or --tokenizer, not both"
                           : "--tokenizer FILE to turn text into tokens, or "
                             "--train to make a tokenizer";
    else if (a->out == NULL)
        missing = "--out FILE";
    else if (!a->train && a->out[0] != '\0' && strcmp(a->out, "-") == 0)
        missing = "a file name with --out; tokens cannot be written to "
                  "standard output";
    if (missing == NULL)
        return true;
    *exit_status = lsi_cli_usage("give %s", missing);
    return false;
}

/* Whether the word is the flag --data; *has_value for "--data=...". */
static bool is_data(const char *word, bool *has_value)
{
    *has_value = strncmp(word, "--data=", 7) == 0;
    return *has_value || strcmp(word, "--data") == 0;
}

/*
 * A shell makes "--data a.txt b.txt --out c" of "--data *.txt --out c". So the
 * words from the second file up to the next flag move to the end. `out` has
 * room for all words, and a NULL after them.
 */
static void put_files_last(const lsi_invocation *call, char **out)
{
    char **tail = out + call->argc;
    bool among_files = false, ended = false, has_value;
    int n = 0, files = 0;
    for (int i = 0; i < call->argc; i++) {
        char *const word = call->argv[i];
        if (among_files && word[0] != '-') {
            tail[files++] = word;
            continue;
        }
        ended |= strcmp(word, "--") == 0;
        among_files = !ended && is_data(word, &has_value);
        out[n++] = word;
        if (among_files && !has_value && i + 1 < call->argc)
            out[n++] = call->argv[++i];
    }
    memmove(out + n, tail, (size_t)files * sizeof *out);
    out[call->argc] = NULL;
}

static int run_words(const lsi_invocation *call)
{
    args a;
    int rest, exit_status;
    names files = {.n = 0};
    ls_group *group = NULL;
    if (!lsi_cli_parse(call, &a, &rest, &exit_status) ||
        !check(&a, &exit_status) ||
        !lsi_cli_as_rank(call, &a.ranks, 1, &exit_status))
        return exit_status;
    if (lsi_cli_open_group(a.ranks.threads, &group) != LS_OK)
        return lsi_cli_rank_error();
    bool agreed = false;
    ls_status status =
        lsi_share_outcome(group, find_files(call, &a, rest, &files), &agreed);
    if (status == LS_OK)
        status = a.train ? train(&a, group, &files) : encode(&a, group, &files);
    exit_status = lsi_cli_rank_exit(status, false);
    free_names(&files);
    ls_group_close(&group);
    return exit_status;
}

static int run_tokenize(const lsi_invocation *call)
{
    char **words = malloc(2 * ((size_t)call->argc + 1) * sizeof *words);
    lsi_invocation again = *call;
    if (words == NULL)
        return lsi_cli_usage("not enough memory for the command line");
    put_files_last(call, words);
    again.argv = words;
    const int exit_status = run_words(&again);
    free(words);
    return exit_status;
}

const lsi_command lsi_command_tokenize = {
    .name = "tokenize",
    .summary = "Turn text into tokens, or train a tokenizer",
    .arguments = "[FILE...]",
    .text = "The tokens are the same as those of Hugging Face's `tokenizers`, "
            "for any number of ranks and threads. With --train, the vocabulary "
            "is the same as that of `tokenizers`. The ranks divide the work; "
            "rank 0 writes the file.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_tokenize,
};

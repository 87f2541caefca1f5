/* Opening tokenizers, and their properties. */
#include "input/text/tokenizer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "input/text/read.h"

enum { MAX_BYTES = 1 << 28 };

/* ---- the end of a text --------------------------------------------------- */

/* {"eos_token": "</s>"} or {"eos_token": {"content": "</s>"}}. */
static int64_t end_in_config(const struct ls_tokenizer *t, const json_t *config)
{
    const json_t *const it = json_object_get(config, "eos_token");
    const char *name = json_string_value(
        json_is_object(it) ? json_object_get(it, "content") : it);
    return name != NULL ? ls_tokenizer_id(t, name) : -1;
}

/* A file that is missing or is something else says nothing. */
static int64_t end_by_config(const struct ls_tokenizer *t, const char *folder)
{
    char path[PATH_MAX];
    struct stat info;
    char *text = NULL;
    size_t bytes;
    json_t *config = NULL;
    json_error_t error;
    int64_t end = -1;
    const int n =
        snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    if (n >= (int)sizeof path || stat(path, &info) != 0 ||
        lsi_read_regular(path, MAX_BYTES, &text, &bytes) != LS_OK)
        return -1;
    if (lsi_json_loadb(text, bytes, 0, &config, &error) == LS_OK)
        end = end_in_config(t, config);
    json_decref(config);
    lsi_free(text);
    return end;
}

static int64_t end_by_name(const struct ls_tokenizer *t)
{
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>",
                                        "</s>", "<eos>"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const int64_t id = ls_tokenizer_id(t, names[i]);
        if (ls_tokenizer_is_special(t, id))
            return id;
    }
    return -1;
}

/* ---- making -------------------------------------------------------------- */

/*
 * A tokenizer of a tokenizer.json, of which it takes over the text, also if it
 * fails; `path` is for errors.
 */
static ls_status make(struct ls_tokenizer **out, const char *path,
                      const json_t *root, lsi_bytes *source)
{
    struct ls_tokenizer *t = NULL;
    ls_status status = lsi_alloc_zeroed(&t, sizeof(struct ls_tokenizer),
                                        LS_MEMORY_DATA, "a tokenizer");
    if (status != LS_OK) {
        lsi_free(source->at);
        return status;
    }
    t->source = *source;
    *source = (lsi_bytes){.n = 0};
    status = lsi_tokenizer_read(t, path, root);
    if (status == LS_OK) {
        t->end = end_by_name(t);
        *out = t;
    } else {
        ls_tokenizer_close(&t);
    }
    return status;
}

static ls_status parse(const char *path, const lsi_bytes *source, json_t **out)
{
    json_error_t error = {.line = 0};
    const ls_status status =
        lsi_json_loadb((const char *)source->at, source->n,
                       JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, out, &error);
    if (status == LS_ERR_FORMAT)
        return lsi_fail(LS_ERR_FORMAT, "'%s' is not JSON: line %d: %s", path,
                        error.line, error.text);
    return status;
}

/* A part whose name is damaged would otherwise be left out silently. */
static ls_status check_parts(const char *path, json_t *root)
{
    static const char *const known[] = {
        "version",        "truncation", "padding",
        "added_tokens",   "normalizer", "pre_tokenizer",
        "post_processor", "decoder",    "model"};
    enum { N = sizeof known / sizeof known[0] };
    void *at = json_object_iter(root);
    for (; at != NULL; at = json_object_iter_next(root, at)) {
        const char *const name = json_object_iter_key(at);
        size_t i = 0;
        while (i < N && strcmp(name, known[i]) != 0)
            i++;
        if (i == N)
            return lsi_fail(
                LS_ERR_UNSUPPORTED,
                "'%s' has a key \"%.60s\", which Lockstep does not know; known "
                "keys are version, truncation, padding, added_tokens, "
                "normalizer, pre_tokenizer, post_processor, decoder and model",
                path, name);
    }
    return LS_OK;
}

/* Takes the source over. */
static ls_status make_of_json(struct ls_tokenizer **out, const char *path,
                              lsi_bytes source)
{
    json_t *root = NULL;
    ls_status status = parse(path, &source, &root);
    if (status == LS_OK && json_object_get(root, "model") == NULL)
        status = lsi_read_fail(
            path, "it has no \"model\", so it is not a tokenizer.json; the "
                  "vocabulary of GPT-2 must be named vocab.json");
    if (status == LS_OK)
        status = check_parts(path, root);
    if (status == LS_OK)
        status = make(out, path, root, &source);
    else
        lsi_free(source.at);
    json_decref(root);
    return status;
}

static ls_status open_json(struct ls_tokenizer **out, const char *path)
{
    lsi_bytes source = {.n = 0};
    char *text = NULL;
    LS_TRY(lsi_read_regular(path, MAX_BYTES, &text, &source.n));
    source.at = (uint8_t *)text;
    source.room = source.n;
    return make_of_json(out, path, source);
}

ls_status lsi_tokenizer_of_text(ls_tokenizer **out, const char *name,
                                const char *text, int64_t end)
{
    lsi_bytes source = {.n = 0};
    const size_t n = strlen(text);
    const ls_status status =
        lsi_bytes_add(&source, text, n + 1); /* and the zero */
    if (status != LS_OK) {
        lsi_free(source.at);
        return status;
    }
    source.n = n;
    LS_TRY(make_of_json(out, name, source));
    if (end >= 0 && end < ls_tokenizer_vocabulary(*out))
        (*out)->end = end;
    return LS_OK;
}

/* The text of a tokenizer.json. */
static ls_status dump(const json_t *root, lsi_bytes *out)
{
    char *const text = lsi_json_dumps(root, JSON_INDENT(2));
    if (text == NULL)
        return lsi_read_no_memory();
    ls_status status = lsi_bytes_add(out, text, strlen(text));
    if (status == LS_OK)
        status = lsi_bytes_add(out, "\n", 2);
    if (status == LS_OK)
        out->n--; /* a zero after it */
    free(text);
    return status;
}

ls_status lsi_tokenizer_of_json(struct ls_tokenizer **out, const char *path,
                                json_t *root)
{
    lsi_bytes source = {.n = 0};
    ls_status status = dump(root, &source);
    if (status == LS_OK)
        status = make(out, path, root, &source);
    else
        lsi_free(source.at);
    json_decref(root);
    return status;
}

static ls_status open_pair(struct ls_tokenizer **out, const char *vocabulary,
                           const char *merges)
{
    json_t *root = NULL;
    LS_TRY(lsi_read_gpt2(vocabulary, merges, &root));
    return lsi_tokenizer_of_json(out, vocabulary, root);
}

/* ---- which files --------------------------------------------------------- */

typedef struct files {
    char folder[PATH_MAX];
    char first[PATH_MAX]; /* tokenizer.json, or vocab.json */
    char merges[PATH_MAX];
    bool pair;
} files;

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISDIR(info.st_mode);
}

/* folder/name; false if that is too long. */
static bool join(char out[PATH_MAX], const char *folder, const char *name)
{
    return snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

static ls_status find_in_folder(files *f, const char *folder)
{
    f->pair = false;
    if (snprintf(f->folder, PATH_MAX, "%s", folder) >= PATH_MAX ||
        !join(f->first, folder, "tokenizer.json"))
        return lsi_fail_path_too_long(LS_ERR_ARGUMENT, folder);
    if (is_file(f->first))
        return LS_OK;
    f->pair = true;
    if (join(f->first, folder, "vocab.json") && is_file(f->first) &&
        join(f->merges, folder, "merges.txt") && is_file(f->merges))
        return LS_OK;
    return lsi_fail(LS_ERR_NOT_FOUND,
                    "the folder '%s' has neither a tokenizer.json nor both a "
                    "vocab.json and a merges.txt",
                    folder);
}

/* Whether the path ends with one of the names; the other file is next to it. */
static bool find_pair(files *f, const char *path)
{
    static const char *const names[] = {"vocab.json", "merges.txt"};
    const size_t n = strlen(path), tail = strlen(names[0]);
    if (n < tail || n >= PATH_MAX ||
        (strcmp(path + n - tail, names[0]) != 0 &&
         strcmp(path + n - tail, names[1]) != 0))
        return false;
    memcpy(f->first, path, n + 1);
    memcpy(f->merges, path, n + 1);
    memcpy(f->first + n - tail, names[0], tail);
    memcpy(f->merges + n - tail, names[1], tail);
    return true;
}

static ls_status find_files(files *f, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot open the tokenizer '%s'",
                              path);
    if (S_ISDIR(info.st_mode))
        return find_in_folder(f, path);
    if (snprintf(f->folder, PATH_MAX, "%s", path) >= PATH_MAX)
        return lsi_fail_path_too_long(LS_ERR_ARGUMENT, path);
    char *const slash = strrchr(f->folder, '/');
    if (slash != NULL)
        *slash = '\0';
    else
        memcpy(f->folder, ".", 2);
    f->pair = find_pair(f, path);
    if (!f->pair)
        snprintf(f->first, PATH_MAX, "%s", path);
    return LS_OK;
}

ls_status ls_tokenizer_open(ls_tokenizer **out, const char *path)
{
    files f;
    LS_NEED(out, path);
    LS_TRY(find_files(&f, path));
    LS_TRY(f.pair ? open_pair(out, f.first, f.merges)
                  : open_json(out, f.first));
    const int64_t end = end_by_config(*out, f.folder);
    if (end >= 0)
        (*out)->end = end;
    return LS_OK;
}

void ls_tokenizer_close(ls_tokenizer **tokenizer)
{
    if (tokenizer == NULL || *tokenizer == NULL)
        return;
    struct ls_tokenizer *const t = *tokenizer;
    lsi_free(t->source.at);
    lsi_vocabulary_free(&t->vocabulary);
    lsi_merges_free(&t->merges);
    lsi_free(t->classes);
    lsi_added_free(&t->added);
    lsi_added_free(&t->normalized);
    for (size_t i = 0; i < t->n_steps; i++)
        lsi_split_pattern_free(t->steps[i].pattern);
    lsi_free(t);
    *tokenizer = NULL;
}

ls_status ls_tokenizer_save(const ls_tokenizer *tokenizer, const char *path)
{
    LS_NEED(tokenizer, path);
    LS_TRY(lsi_make_parents(path));
    return lsi_atomic_file_put(path, tokenizer->source.at, tokenizer->source.n);
}

/* ---- its tokens ---------------------------------------------------------- */

int64_t ls_tokenizer_vocabulary(const ls_tokenizer *tokenizer)
{
    return tokenizer != NULL ? (int64_t)tokenizer->vocabulary.n : 0;
}

uint64_t ls_tokenizer_digest(const ls_tokenizer *tokenizer)
{
    return tokenizer != NULL ? tokenizer->digest : 0;
}

int64_t ls_tokenizer_id(const ls_tokenizer *tokenizer, const char *token)
{
    if (tokenizer == NULL || token == NULL)
        return -1;
    const lsi_text content = {(const uint8_t *)token, strlen(token)};
    const uint32_t id = lsi_vocabulary_find(&tokenizer->vocabulary, content);
    return id != LSI_NO_TOKEN ? (int64_t)id : -1;
}

bool ls_tokenizer_is_special(const ls_tokenizer *tokenizer, int64_t id)
{
    return tokenizer != NULL && id >= 0 &&
           (size_t)id < tokenizer->vocabulary.n &&
           (tokenizer->vocabulary.tokens[id].flags & LSI_TOKEN_SPECIAL) != 0;
}

int64_t ls_tokenizer_end(const ls_tokenizer *tokenizer)
{
    return tokenizer != NULL ? tokenizer->end : -1;
}

/* Learning a vocabulary. */
#include <inttypes.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/structs.h"
#include "comm/api/outcome.h"
#include "input/text/byte_level.h"
#include "input/text/pairs.h"
#include "input/text/read.h"
#include "input/text/unicode.h"

/* A caller's options (NULL: the defaults), with the default in place of a 0. */
static ls_status read_options(const ls_tokenizer_training *given,
                              ls_tokenizer_training *out)
{
    static const char *const special[] = {"<|endoftext|>"};
    static const ls_tokenizer_training usual = LS_TOKENIZER_TRAINING_INIT;
    LS_TRY(LSI_STRUCT_READ(out, given != NULL ? given : &usual,
                           ls_tokenizer_training, n_special));
    if (out->vocabulary == 0)
        out->vocabulary = usual.vocabulary;
    if (out->least == 0)
        out->least = usual.least;
    if (out->special == NULL) {
        out->special = special;
        out->n_special = 1;
    }
    return LS_OK;
}

/* ---- a vocabulary that grows --------------------------------------------- */

typedef struct learning {
    const ls_tokenizer_training *how;
    lsi_vocabulary vocabulary; /* with room for all wanted tokens */
    uint32_t n;                /* that are there */
    uint32_t bytes[256];
    json_t *merges;
    lsi_bytes left, right, both; /* texts; `both` has a blank in a merge */
} learning;

static ls_status check(const ls_tokenizer_training *how)
{
    const int64_t least = 256 + (int64_t)how->n_special;
    if (how->vocabulary < least || how->vocabulary > LSI_MAX_TOKENS)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "cannot train a vocabulary of %" PRId64
                        " tokens; expected at least %" PRId64
                        " (256 bytes and %zu special tokens), and at most %d",
                        how->vocabulary, least, how->n_special, LSI_MAX_TOKENS);
    if (how->pattern != LS_PATTERN_GPT2 && how->pattern != LS_PATTERN_LLAMA3)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "pattern is %d; expected LS_PATTERN_GPT2 or LS_PATTERN_LLAMA3",
            (int)how->pattern);
    for (size_t i = 0; i < how->n_special; i++)
        LS_NEED(how->special[i]);
    return LS_OK;
}

static ls_status add(learning *l, lsi_text content)
{
    if (content.n == 0 ||
        lsi_vocabulary_find(&l->vocabulary, content) != LSI_NO_TOKEN)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the special token '%.*s' is empty or listed twice",
                        (int)content.n, (const char *)content.at);
    return lsi_vocabulary_add(&l->vocabulary, l->n++, content, 0);
}

/* Special tokens, then bytes by the characters that stand for them. */
static ls_status begin(learning *l)
{
    LS_TRY(lsi_vocabulary_new(&l->vocabulary, (size_t)l->how->vocabulary));
    for (size_t i = 0; i < l->how->n_special; i++) {
        const char *text = l->how->special[i];
        LS_TRY(add(l, (lsi_text){(const uint8_t *)text, strlen(text)}));
    }
    for (uint32_t code = 0; code < 0x200; code++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            uint8_t text[4];
            if (lsi_byte_char((uint8_t)byte) != code)
                continue;
            l->bytes[byte] = l->n;
            LS_TRY(add(l, (lsi_text){text, lsi_utf8_write(code, text)}));
        }
    }
    return LS_OK;
}

/* The text of a token, copied out of the vocabulary, which moves. */
static ls_status text_of(const learning *l, uint32_t id, lsi_bytes *out)
{
    const lsi_text content = lsi_vocabulary_content(&l->vocabulary, id);
    out->n = 0;
    return lsi_bytes_add(out, content.at, content.n);
}

/* The token that the pair becomes, which may be there already. */
static ls_status join(learning *l, uint32_t left, uint32_t right,
                      uint32_t *whole)
{
    LS_TRY(text_of(l, left, &l->left));
    LS_TRY(text_of(l, right, &l->right));
    l->both.n = 0;
    LS_TRY(lsi_bytes_add(&l->both, l->left.at, l->left.n));
    LS_TRY(lsi_bytes_add(&l->both, l->right.at, l->right.n));
    *whole = lsi_vocabulary_find(&l->vocabulary, lsi_bytes_text(&l->both));
    if (*whole == LSI_NO_TOKEN) {
        *whole = l->n++;
        LS_TRY(lsi_vocabulary_add(&l->vocabulary, *whole,
                                  lsi_bytes_text(&l->both), 0));
    }
    l->both.n = l->left.n;
    LS_TRY(lsi_bytes_add(&l->both, " ", 1));
    LS_TRY(lsi_bytes_add(&l->both, l->right.at, l->right.n));
    return json_array_append_new(
               l->merges, json_stringn((const char *)l->both.at, l->both.n)) ==
                   0
               ? LS_OK
               : lsi_fail(LS_ERR_MEMORY,
                          "not enough memory for the tokenizer's merges");
}

static ls_status learn(learning *l, lsi_pairs *pairs)
{
    const int64_t least = l->how->least > 1 ? l->how->least : 1;
    while (l->n < (uint32_t)l->how->vocabulary) {
        const lsi_pair *const best = lsi_pairs_best(pairs, least);
        uint32_t whole;
        if (best == NULL)
            break;
        const uint32_t left = best->left, right = best->right;
        LS_TRY(join(l, left, right, &whole));
        LS_TRY(lsi_pairs_merge(pairs, left, right, whole));
    }
    return LS_OK;
}

/* ---- the tokenizer ------------------------------------------------------- */

static ls_status list_vocabulary(const learning *l, json_t **out)
{
    lsi_bytes name = {.n = 0};
    ls_status status = LS_OK;
    *out = json_object();
    for (uint32_t id = 0; id < l->n && status == LS_OK; id++) {
        status = text_of(l, id, &name);
        if (status == LS_OK)
            status = lsi_bytes_add(&name, "", 1);
        if (status == LS_OK && json_object_set_new(*out, (const char *)name.at,
                                                   json_integer(id)) != 0)
            status =
                lsi_fail(LS_ERR_MEMORY,
                         "not enough memory for the tokenizer's vocabulary");
    }
    lsi_free(name.at);
    return status;
}

static ls_status make(ls_tokenizer **out, const learning *l)
{
    json_t *vocab = NULL, *root = NULL;
    json_t *const added = json_array();
    LS_TRY(list_vocabulary(l, &vocab));
    for (size_t i = 0; i < l->how->n_special; i++)
        json_array_append_new(
            added, lsi_read_special(l->how->special[i], (json_int_t)i));
    LS_TRY(lsi_read_compose(
        vocab, json_incref(l->merges), added,
        l->how->pattern == LS_PATTERN_GPT2 ? LSI_SPLIT_GPT2 : LSI_SPLIT_LLAMA3,
        &root));
    return lsi_tokenizer_of_json(out, "the trained tokenizer", root);
}

/* Of bytes only, which divides text as the trained one will. */
static ls_status make_first(learning *l, ls_tokenizer **out)
{
    LS_TRY(check(l->how));
    l->merges = json_array();
    LS_TRY(begin(l));
    return make(out, l);
}

static ls_status finish(learning *l, const lsi_word_counts *words,
                        ls_tokenizer **out)
{
    lsi_pairs pairs;
    ls_status status = lsi_pairs_new(&pairs, words, l->bytes);
    if (status == LS_OK)
        status = learn(l, &pairs);
    lsi_pairs_free(&pairs);
    return status == LS_OK ? make(out, l) : status;
}

static ls_status train(learning *l, ls_group *group, const char *const *paths,
                       size_t n, ls_tokenizer **out)
{
    ls_tokenizer *first = NULL;
    lsi_corpus corpus = {.n = 0};
    lsi_word_counts words = {.n = 0};
    bool agreed = false;
    ls_status status = lsi_share_outcome(group, make_first(l, &first), &agreed);
    if (status == LS_OK)
        status = lsi_corpus_open(&corpus, group, paths, n);
    if (status == LS_OK)
        status = lsi_word_counts_of(&words, group, first, &corpus);
    lsi_corpus_close(&corpus);
    ls_tokenizer_close(&first);
    if (status == LS_OK)
        status = lsi_share_outcome(group, finish(l, &words, out), &agreed);
    lsi_word_counts_free(&words);
    return status;
}

static void free_learning(learning *l)
{
    lsi_vocabulary_free(&l->vocabulary);
    json_decref(l->merges);
    lsi_free(l->left.at);
    lsi_free(l->right.at);
    lsi_free(l->both.at);
}

ls_status ls_tokenizer_new_trained(ls_tokenizer **out, ls_group *group,
                                   const char *const *paths, size_t n,
                                   const ls_tokenizer_training *training)
{
    ls_tokenizer_training how;
    LS_NEED(out, group, paths);
    LS_TRY(read_options(training, &how));
    learning l = {.how = &how};
    ls_tokenizer *made = NULL;
    const ls_status status = train(&l, group, paths, n, &made);
    free_learning(&l);
    if (status == LS_OK)
        *out = made;
    else
        ls_tokenizer_close(&made);
    return status;
}

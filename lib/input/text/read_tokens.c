/* The model and the added tokens of a tokenizer.json. */
#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"
#include "input/text/normalize.h"
#include "input/text/read.h"

/* ---- vocabulary ---------------------------------------------------------- */

static ls_status check_token_id(const char *path, const char *content,
                                const json_t *number, size_t *n)
{
    const json_int_t id = json_integer_value(number);
    if (!json_is_integer(number) || id < 0 || id >= LSI_MAX_TOKENS)
        return lsi_read_fail(
            path,
            "the id of the token \"%.60s\" is not an integer from 0 to %d",
            content, LSI_MAX_TOKENS - 1);
    if ((size_t)id >= *n)
        *n = (size_t)id + 1;
    return LS_OK;
}

static ls_status check_added(const char *path, const json_t *entry, size_t *n)
{
    const json_t *const content = json_object_get(entry, "content");
    if (!json_is_string(content))
        return lsi_read_fail(path,
                             "one of its added_tokens has no \"content\"");
    return check_token_id(path, json_string_value(content),
                          json_object_get(entry, "id"), n);
}

static ls_status add_pieces(struct ls_tokenizer *t, const char *path,
                            json_t *vocab)
{
    void *at = json_object_iter(vocab);
    for (; at != NULL; at = json_object_iter_next(vocab, at)) {
        const char *content = json_object_iter_key(at);
        const uint32_t id =
            (uint32_t)json_integer_value(json_object_iter_value(at));
        const lsi_text text = {(const uint8_t *)content, strlen(content)};
        if ((t->vocabulary.tokens[id].flags & LSI_TOKEN_THERE) != 0)
            return lsi_read_fail(
                path, "the tokens \"%.60s\" and \"%.*s\" both have the id %u",
                content, (int)lsi_vocabulary_content(&t->vocabulary, id).n,
                (const char *)lsi_vocabulary_content(&t->vocabulary, id).at,
                id);
        LS_TRY(lsi_vocabulary_add(&t->vocabulary, id, text, 0));
    }
    return LS_OK;
}

/* Most of them are in the vocabulary, too. */
static ls_status add_added(struct ls_tokenizer *t, const char *path,
                           const json_t *entry)
{
    lsi_vocabulary *const v = &t->vocabulary;
    const lsi_text content = lsi_read_text(json_object_get(entry, "content"));
    const uint32_t id =
        (uint32_t)json_integer_value(json_object_get(entry, "id"));
    const uint32_t known = lsi_vocabulary_find(v, content);
    bool special;
    LS_TRY(lsi_read_bool(path, entry, "special", false, &special));
    const uint8_t flags =
        (uint8_t)(LSI_TOKEN_ADDED | (special ? LSI_TOKEN_SPECIAL : 0));
    if (known == LSI_NO_TOKEN && (v->tokens[id].flags & LSI_TOKEN_THERE) == 0)
        return lsi_vocabulary_add(v, id, content, flags);
    if (known != id)
        return lsi_read_fail(
            path,
            "the added token \"%.*s\" has the id %u, but the vocabulary has "
            "another id for it, or another token with this id",
            (int)content.n, (const char *)content.at, id);
    v->tokens[id].flags |= flags;
    return LS_OK;
}

static ls_status read_vocabulary(struct ls_tokenizer *t, const char *path,
                                 json_t *vocab, const json_t *added)
{
    size_t n = 0, index;
    const char *content;
    json_t *number;
    const json_t *entry;
    if (!json_is_object(vocab))
        return lsi_read_fail(path, "its model has no \"vocab\"");
    json_object_foreach(vocab, content, number)
        LS_TRY(check_token_id(path, content, number, &n));
    json_array_foreach(added, index, entry)
        LS_TRY(check_added(path, entry, &n));
    LS_TRY(lsi_vocabulary_new(&t->vocabulary, n));
    LS_TRY(add_pieces(t, path, vocab));
    json_array_foreach(added, index, entry) LS_TRY(add_added(t, path, entry));
    return LS_OK;
}

/* ---- merges -------------------------------------------------------------- */

/* "a b", or ["a", "b"]. */
static bool halves(const json_t *entry, lsi_text *left, lsi_text *right)
{
    if (json_is_array(entry)) {
        const json_t *const a = json_array_get(entry, 0);
        const json_t *const b = json_array_get(entry, 1);
        *left = lsi_read_text(a);
        *right = lsi_read_text(b);
        return json_array_size(entry) == 2 && json_is_string(a) &&
               json_is_string(b);
    }
    if (!json_is_string(entry))
        return false;
    const lsi_text both = lsi_read_text(entry);
    const uint8_t *blank = memchr(both.at, ' ', both.n);
    if (blank == NULL)
        return false;
    *left = (lsi_text){both.at, (size_t)(blank - both.at)};
    *right = (lsi_text){blank + 1, both.n - left->n - 1};
    return memchr(right->at, ' ', right->n) == NULL;
}

static ls_status read_merge(struct ls_tokenizer *t, const char *path,
                            const json_t *entry, lsi_merge *out,
                            lsi_bytes *whole)
{
    lsi_text left, right;
    if (!halves(entry, &left, &right))
        return lsi_read_fail(
            path, "its merge %u does not consist of two tokens", out->rank);
    whole->n = 0;
    LS_TRY(lsi_bytes_add(whole, left.at, left.n));
    LS_TRY(lsi_bytes_add(whole, right.at, right.n));
    out->left = lsi_vocabulary_find(&t->vocabulary, left);
    out->right = lsi_vocabulary_find(&t->vocabulary, right);
    out->whole = lsi_vocabulary_find(&t->vocabulary, lsi_bytes_text(whole));
    if (out->left != LSI_NO_TOKEN && out->right != LSI_NO_TOKEN &&
        out->whole != LSI_NO_TOKEN)
        return LS_OK;
    return lsi_read_fail(path,
                         "its merge %u joins \"%.*s\" and \"%.*s\" into "
                         "\"%.*s\", but not all three are in the vocabulary",
                         out->rank, (int)left.n, (const char *)left.at,
                         (int)right.n, (const char *)right.at, (int)whole->n,
                         (const char *)whole->at);
}

static ls_status read_merges(struct ls_tokenizer *t, const char *path,
                             const json_t *merges)
{
    lsi_bytes whole = {.n = 0};
    ls_status status = LS_OK;
    if (!json_is_array(merges))
        return lsi_read_fail(path, "its model has no \"merges\" list");
    const size_t n = json_array_size(merges);
    LS_TRY(lsi_merges_new(&t->merges, n));
    for (size_t i = 0; i < n && status == LS_OK; i++) {
        lsi_merge merge = {.rank = (uint32_t)i};
        status = read_merge(t, path, json_array_get(merges, i), &merge, &whole);
        if (status == LS_OK)
            lsi_merges_add(&t->merges, &merge);
    }
    lsi_free(whole.at);
    return status;
}

/* ---- the model ----------------------------------------------------------- */

static ls_status check_model(const char *path, const json_t *model)
{
    static const char *const affixes[] = {"continuing_subword_prefix",
                                          "end_of_word_suffix"};
    const json_t *const type = json_object_get(model, "type");
    if (!json_is_object(model))
        return lsi_read_fail(path, "it has no \"model\"");
    /* Old files omit the type of BPE, the only model with merges. */
    if (type != NULL && !lsi_read_is(model, "BPE"))
        return lsi_read_refuse(path, "model", type);
    for (size_t i = 0; i < 2; i++) {
        lsi_word affix;
        LS_TRY(lsi_read_word(path, model, affixes[i], &affix));
        if (affix.n > 0)
            return lsi_fail(
                LS_ERR_UNSUPPORTED,
                "'%s': its model has a %s, which Lockstep does not support",
                path, affixes[i]);
    }
    if (json_number_value(json_object_get(model, "dropout")) == 0.0)
        return LS_OK;
    return lsi_fail(LS_ERR_UNSUPPORTED,
                    "'%s': its model has a dropout, so a text would give "
                    "different tokens each time; set \"dropout\" to null",
                    path);
}

static ls_status read_unknown(struct ls_tokenizer *t, const char *path,
                              const json_t *model)
{
    const json_t *const it = json_object_get(model, "unk_token");
    t->unknown = LSI_NO_TOKEN;
    if (it == NULL || json_is_null(it) || json_string_length(it) == 0)
        return LS_OK;
    if (json_is_string(it))
        t->unknown = lsi_vocabulary_find(&t->vocabulary, lsi_read_text(it));
    return t->unknown != LSI_NO_TOKEN
               ? LS_OK
               : lsi_read_fail(path, "its unk_token is not in the vocabulary");
}

ls_status lsi_read_tokens(struct ls_tokenizer *t, const char *path,
                          const json_t *root)
{
    const json_t *const model = json_object_get(root, "model");
    LS_TRY(check_model(path, model));
    LS_TRY(read_vocabulary(t, path, json_object_get(model, "vocab"),
                           json_object_get(root, "added_tokens")));
    LS_TRY(read_merges(t, path, json_object_get(model, "merges")));
    LS_TRY(read_unknown(t, path, model));
    LS_TRY(lsi_read_bool(path, model, "fuse_unk", false, &t->fuse_unknown));
    LS_TRY(
        lsi_read_bool(path, model, "byte_fallback", false, &t->byte_fallback));
    return lsi_read_bool(path, model, "ignore_merges", false,
                         &t->ignore_merges);
}

/* ---- what is found in text ----------------------------------------------- */

static ls_status put_added(struct ls_tokenizer *t, const char *path,
                           const json_t *entry)
{
    const lsi_text content = lsi_read_text(json_object_get(entry, "content"));
    const uint32_t id =
        (uint32_t)json_integer_value(json_object_get(entry, "id"));
    lsi_added_token token = {.id = id};
    bool whole_word, normalized;
    LS_TRY(lsi_read_bool(path, entry, "single_word", false, &whole_word));
    LS_TRY(lsi_read_bool(path, entry, "lstrip", false, &token.strip_left));
    LS_TRY(lsi_read_bool(path, entry, "rstrip", false, &token.strip_right));
    LS_TRY(lsi_read_bool(path, entry, "normalized", false, &normalized));
    if (whole_word)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "'%s': the added token \"%.*s\" sets single_word, but "
                        "Lockstep does not support this setting",
                        path, (int)content.n, (const char *)content.at);
    if (!normalized)
        return lsi_added_put(&t->added, &token, content);
    lsi_bytes form = {.n = 0};
    ls_status status = lsi_normalize(t, content, true, &form);
    if (status == LS_OK)
        status = lsi_added_put(&t->normalized, &token, lsi_bytes_text(&form));
    lsi_free(form.at);
    return status;
}

ls_status lsi_read_added(struct ls_tokenizer *t, const char *path,
                         const json_t *root)
{
    const json_t *const added = json_object_get(root, "added_tokens");
    size_t index;
    const json_t *entry;
    LS_TRY(lsi_added_new(&t->added, json_array_size(added)));
    LS_TRY(lsi_added_new(&t->normalized, json_array_size(added)));
    json_array_foreach(added, index, entry) LS_TRY(put_added(t, path, entry));
    lsi_added_sort(&t->added);
    lsi_added_sort(&t->normalized);
    return LS_OK;
}

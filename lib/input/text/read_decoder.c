/* The decoder and the post_processor of a tokenizer.json. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "input/text/byte_level.h"
#include "input/text/normalize.h"
#include "input/text/read.h"

/* ---- what tokens decode to ----------------------------------------------- */

/* The effect of the parts of a decoder on the text of each token. */
typedef struct recipe {
    bool byte_level, byte_fallback, fused;
    lsi_rule rules[LSI_MAX_RULES];
    size_t n_rules;
} recipe;

/* "<0x0A>" is a byte; -1 for anything else. */
static int byte_named(lsi_text text)
{
    char digits[3] = "";
    char *end;
    if (text.n != 6 || memcmp(text.at, "<0x", 3) != 0 || text.at[5] != '>')
        return -1;
    memcpy(digits, text.at + 3, 2);
    const long byte = strtol(digits, &end, 16);
    return end == digits + 2 && digits[0] != '+' && digits[0] != '-' &&
                   digits[0] != ' '
               ? (int)byte
               : -1;
}

/* Appends the decoded text of a token; *byte: it is a single byte. */
static ls_status decode_content(const recipe *r, lsi_text content,
                                lsi_bytes *out, bool *byte)
{
    const int value = r->byte_fallback ? byte_named(content) : -1;
    *byte = value >= 0;
    if (*byte) {
        const uint8_t one = (uint8_t)value;
        return lsi_bytes_add(out, &one, 1);
    }
    if (r->byte_level) {
        bool all;
        LS_TRY(lsi_byte_level_read(out, content, &all));
        return all ? LS_OK : lsi_bytes_add(out, content.at, content.n);
    }
    if (r->n_rules == 0)
        return lsi_bytes_add(out, content.at, content.n);
    return lsi_replace(&r->rules[0], content, out);
}

static ls_status set_texts(struct ls_tokenizer *t, const recipe *r)
{
    lsi_vocabulary *const v = &t->vocabulary;
    lsi_bytes text = {.n = 0}, copy = {.n = 0};
    ls_status status = LS_OK;
    for (uint32_t id = 0; id < v->n && status == LS_OK; id++) {
        bool byte;
        if ((v->tokens[id].flags & LSI_TOKEN_THERE) == 0)
            continue;
        /* The vocabulary's own bytes move when one is added. */
        const lsi_text content = lsi_vocabulary_content(v, id);
        text.n = copy.n = 0;
        status = lsi_bytes_add(&copy, content.at, content.n);
        if (status == LS_OK)
            status = decode_content(r, lsi_bytes_text(&copy), &text, &byte);
        if (status == LS_OK && byte)
            v->tokens[id].flags |= LSI_TOKEN_BYTE;
        if (status == LS_OK)
            status = lsi_vocabulary_set_text(v, id, lsi_bytes_text(&text));
    }
    lsi_free(text.at);
    lsi_free(copy.at);
    return status;
}

/* ---- the decoder --------------------------------------------------------- */

static ls_status add_rule(recipe *r, const char *path, const lsi_rule *rule)
{
    if (r->n_rules == 1 || rule->from.n == 0 || r->byte_fallback)
        return lsi_read_fail(
            path,
            "its decoder may have only one Replace or Metaspace step. The text "
            "to replace must not be empty, and ByteFallback must come later");
    r->rules[r->n_rules++] = *rule;
    return LS_OK;
}

static ls_status read_strip(struct ls_tokenizer *t, const recipe *r,
                            const char *path, const json_t *part)
{
    lsi_word content;
    LS_TRY(lsi_read_word(path, part, "content", &content));
    const json_int_t start = json_integer_value(json_object_get(part, "start"));
    const json_int_t stop = json_integer_value(json_object_get(part, "stop"));
    if (!r->fused || content.n != 1 || content.at[0] != ' ' || stop != 0 ||
        start < 0 || start > 1000)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "'%s': the Strip of its decoder is not supported; it "
                        "must follow Fuse, and remove only leading spaces",
                        path);
    t->decoding.strip = (size_t)start;
    return LS_OK;
}

static ls_status read_metaspace(struct ls_tokenizer *t, recipe *r,
                                const char *path, const json_t *part)
{
    lsi_rule rule = {.to = {1, " "}};
    lsi_word scheme;
    bool prefix;
    LS_TRY(lsi_read_word(path, part, "replacement", &rule.from));
    LS_TRY(lsi_read_word(path, part, "prepend_scheme", &scheme));
    LS_TRY(lsi_read_bool(path, part, "add_prefix_space", true, &prefix));
    if (prefix && !(scheme.n == 5 && memcmp(scheme.at, "never", 5) == 0))
        t->decoding.mark = rule.from;
    return add_rule(r, path, &rule);
}

static ls_status read_replace(recipe *r, const char *path, const json_t *part)
{
    lsi_rule rule;
    const json_t *const pattern = json_object_get(part, "pattern");
    if (!json_is_string(json_object_get(pattern, "String")))
        return lsi_read_refuse(path, "decoder (with a regular expression)",
                               json_object_get(part, "type"));
    LS_TRY(lsi_read_word(path, pattern, "String", &rule.from));
    LS_TRY(lsi_read_word(path, part, "content", &rule.to));
    return add_rule(r, path, &rule);
}

static ls_status read_decoder_step(struct ls_tokenizer *t, recipe *r,
                                   const char *path, const json_t *part)
{
    if (lsi_read_is(part, "ByteLevel"))
        r->byte_level = true;
    else if (lsi_read_is(part, "ByteFallback"))
        r->byte_fallback = true;
    else if (lsi_read_is(part, "Fuse"))
        r->fused = true;
    else if (lsi_read_is(part, "Strip"))
        return read_strip(t, r, path, part);
    else if (lsi_read_is(part, "Replace"))
        return read_replace(r, path, part);
    else if (lsi_read_is(part, "Metaspace"))
        return read_metaspace(t, r, path, part);
    else
        return lsi_read_refuse(path, "decoder", json_object_get(part, "type"));
    if (r->byte_level && (r->byte_fallback || r->n_rules > 0))
        return lsi_read_fail(path, "its decoder combines ByteLevel with other "
                                   "steps; ByteLevel must be the only step");
    return LS_OK;
}

ls_status lsi_read_decoder(struct ls_tokenizer *t, const char *path,
                           const json_t *root)
{
    const json_t *const decoder = json_object_get(root, "decoder");
    const size_t n = lsi_read_parts(decoder, "decoders");
    recipe r = {.n_rules = 0};
    for (size_t i = 0; i < n; i++)
        LS_TRY(read_decoder_step(t, &r, path,
                                 lsi_read_part(decoder, "decoders", i)));
    t->decoding.joined_by_blanks = n == 0;
    return set_texts(t, &r);
}

/* ---- what is put around a text ------------------------------------------- */

static ls_status put_around(struct ls_tokenizer *t, const char *path,
                            const json_t *id, bool behind)
{
    uint32_t *const list = behind ? t->after : t->before;
    size_t *const n = behind ? &t->n_after : &t->n_before;
    const json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0 || (size_t)value >= t->vocabulary.n ||
        (t->vocabulary.tokens[value].flags & LSI_TOKEN_THERE) == 0)
        return lsi_read_fail(path, "its post_processor adds a token that is "
                                   "not in the vocabulary");
    if (*n == LSI_MAX_AROUND)
        return lsi_read_fail(
            path,
            "its post_processor adds too many tokens; Lockstep supports at "
            "most %d before and %d after the text",
            LSI_MAX_AROUND, LSI_MAX_AROUND);
    list[(*n)++] = (uint32_t)value;
    return LS_OK;
}

static ls_status read_template(struct ls_tokenizer *t, const char *path,
                               const json_t *part)
{
    const json_t *const known = json_object_get(part, "special_tokens");
    bool behind = false;
    size_t index, place;
    const json_t *entry, *id;
    json_array_foreach(json_object_get(part, "single"), index, entry)
    {
        const json_t *const token = json_object_get(entry, "SpecialToken");
        const char *name = json_string_value(json_object_get(token, "id"));
        if (json_object_get(entry, "Sequence") != NULL) {
            behind = true;
            continue;
        }
        const json_t *const ids = json_object_get(
            name != NULL ? json_object_get(known, name) : NULL, "ids");
        if (!json_is_array(ids))
            return lsi_read_fail(path, "its post_processor names a token that "
                                       "is missing from its special_tokens");
        json_array_foreach(ids, place, id)
            LS_TRY(put_around(t, path, id, behind));
    }
    return LS_OK;
}

ls_status lsi_read_around(struct ls_tokenizer *t, const char *path,
                          const json_t *root)
{
    const json_t *const all = json_object_get(root, "post_processor");
    for (size_t i = 0; i < lsi_read_parts(all, "processors"); i++) {
        const json_t *const part = lsi_read_part(all, "processors", i);
        if (lsi_read_is(part, "ByteLevel"))
            continue; /* changes offsets, not tokens */
        if (!lsi_read_is(part, "TemplateProcessing"))
            return lsi_read_refuse(path, "post_processor",
                                   json_object_get(part, "type"));
        LS_TRY(read_template(t, path, part));
    }
    return LS_OK;
}

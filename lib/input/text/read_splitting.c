/* The normalizer and the pre_tokenizer of a tokenizer.json. */
#include <stdio.h>

#include "base/error.h"
#include "base/hash.h"
#include "input/text/byte_level.h"
#include "input/text/normalize.h"
#include "input/text/read.h"
#include "input/text/unicode.h"

/* ---- the normalizer ------------------------------------------------------ */

static ls_status read_rule(struct ls_tokenizer *t, const char *path,
                           const json_t *part)
{
    lsi_rule rule = {.from = {.n = 0}};
    const json_t *const pattern = json_object_get(part, "pattern");
    if (t->n_rules == LSI_MAX_RULES)
        return lsi_read_fail(
            path,
            "its normalizer has too many steps; Lockstep supports at most %d",
            LSI_MAX_RULES);
    if (lsi_read_is(part, "Prepend")) {
        LS_TRY(lsi_read_word(path, part, "prepend", &rule.to));
    } else if (lsi_read_is(part, "NFC") && lsi_nfc_is_there()) {
        rule.nfc = true;
    } else if (lsi_read_is(part, "Replace") &&
               json_is_string(json_object_get(pattern, "String"))) {
        LS_TRY(lsi_read_word(path, pattern, "String", &rule.from));
        LS_TRY(lsi_read_word(path, part, "content", &rule.to));
        if (rule.from.n == 0)
            return lsi_read_fail(
                path, "its normalizer has a Replace with an empty pattern");
    } else {
        return lsi_read_refuse(path,
                               lsi_read_is(part, "Replace")
                                   ? "normalizer (with a regular expression)"
                                   : "normalizer",
                               json_object_get(part, "type"));
    }
    t->rules[t->n_rules++] = rule;
    return LS_OK;
}

/* ---- the pre_tokenizer --------------------------------------------------- */

static ls_status add_step(struct ls_tokenizer *t, const char *path,
                          const lsi_splitter *step)
{
    if (t->n_steps == LSI_MAX_STEPS) {
        lsi_split_pattern_free(step->pattern);
        return lsi_read_fail(path,
                             "its pre_tokenizer has too many steps; Lockstep "
                             "supports at most %d",
                             LSI_MAX_STEPS);
    }
    t->steps[t->n_steps] = *step;
    t->steps[t->n_steps++].classes = t->classes;
    return LS_OK;
}

static ls_status read_behavior(const char *path, const json_t *part, int *drop)
{
    const json_t *const name = json_object_get(part, "behavior");
    const char *text = json_string_value(name);
    bool invert;
    LS_TRY(lsi_read_bool(path, part, "invert", false, &invert));
    if (text != NULL && strcmp(text, "Isolated") == 0)
        *drop = 0;
    else if (text != NULL && strcmp(text, "Removed") == 0)
        *drop = invert ? LSI_DROP_REST : LSI_DROP_MATCHES;
    else
        return lsi_read_refuse(path, "pre_tokenizer (behavior)", name);
    return LS_OK;
}

/*
 * Whether it has an interval with a plus, as in "{1,3}+": PCRE2 takes as much
 * as it can and gives nothing back; the library of `tokenizers` repeats the
 * interval.
 */
static bool repeats_interval(const char *pattern)
{
    for (const char *at = strchr(pattern, '{'); at != NULL;
         at = strchr(at + 1, '{')) {
        const size_t n = strspn(at + 1, "0123456789,");
        if (n > 0 && at[n + 1] == '}' && at[n + 2] == '+')
            return true;
    }
    return false;
}

static ls_status read_split(struct ls_tokenizer *t, const char *path,
                            const json_t *part)
{
    const json_t *const pattern = json_object_get(part, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *literal = json_string_value(json_object_get(pattern, "String"));
    const char *text = regex != NULL ? regex : literal;
    lsi_splitter step = {.kind = LSI_SPLIT_PATTERN};
    if (text == NULL || text[0] == '\0')
        return lsi_read_fail(path,
                             "its pre_tokenizer has a Split without a pattern");
    if (regex != NULL && repeats_interval(regex))
        return lsi_fail(
            LS_ERR_UNSUPPORTED,
            "'%s': its pre_tokenizer has a pattern with an interval followed "
            "by a plus, such as {1,3}+. Regular-expression libraries disagree "
            "on its meaning; use the interval or the plus alone",
            path);
    LS_TRY(read_behavior(path, part, &step.drop));
    step.digest = lsi_hash(LSI_HASH_START, text, strlen(text));
    /* The known patterns match everything, so nothing is left to drop. */
    if (regex != NULL && step.drop != LSI_DROP_MATCHES &&
        lsi_split_known(regex, &step)) {
        step.drop = 0;
        step.digest = 0;
    } else {
        const ls_status status =
            lsi_split_pattern_new(&step.pattern, text, regex == NULL);
        if (status != LS_OK)
            return status;
    }
    return add_step(t, path, &step);
}

static ls_status read_digits(struct ls_tokenizer *t, const char *path,
                             const json_t *part)
{
    bool apart;
    LS_TRY(lsi_read_bool(path, part, "individual_digits", false, &apart));
    return add_step(
        t, path,
        &(lsi_splitter){.kind = LSI_SPLIT_DIGITS, .digits = apart ? 1 : 0});
}

static ls_status read_byte_level(struct ls_tokenizer *t, const char *path,
                                 const json_t *part)
{
    bool blank, pattern;
    LS_TRY(lsi_read_bool(path, part, "add_prefix_space", true, &blank));
    LS_TRY(lsi_read_bool(path, part, "use_regex", true, &pattern));
    if (blank && t->n_steps > 0)
        return lsi_fail(
            LS_ERR_UNSUPPORTED,
            "'%s': its pre_tokenizer has a ByteLevel with add_prefix_space "
            "after another step, which Lockstep does not support",
            path);
    if (blank) {
        t->prefix = (lsi_word){1, " "};
        t->prefix_when = LSI_PREFIX_ALWAYS;
    }
    t->byte_level = true;
    if (!pattern)
        return LS_OK;
    return add_step(t, path, &(lsi_splitter){.kind = LSI_SPLIT_GPT2});
}

/* Blanks become marks, and one goes before the text. */
static ls_status read_metaspace(struct ls_tokenizer *t, const char *path,
                                const json_t *part)
{
    lsi_word scheme;
    bool split, prefix;
    LS_TRY(lsi_read_word(path, part, "replacement", &t->prefix));
    LS_TRY(lsi_read_word(path, part, "prepend_scheme", &scheme));
    LS_TRY(lsi_read_bool(path, part, "split", true, &split));
    LS_TRY(lsi_read_bool(path, part, "add_prefix_space", true, &prefix));
    if (t->n_steps > 0 || t->prefix.n == 0 || t->n_rules == LSI_MAX_RULES)
        return lsi_read_fail(path,
                             "its Metaspace must be the first pre_tokenizer "
                             "step, and must have a replacement");
    if (scheme.n == 5 && memcmp(scheme.at, "first", 5) == 0)
        t->prefix_when = LSI_PREFIX_FIRST;
    else if (scheme.n == 5 && memcmp(scheme.at, "never", 5) == 0)
        t->prefix_when = LSI_PREFIX_NEVER;
    else /* "always", or an old file */
        t->prefix_when = prefix ? LSI_PREFIX_ALWAYS : LSI_PREFIX_NEVER;
    t->rules[t->n_rules++] = (lsi_rule){.from = {1, " "}, .to = t->prefix};
    if (!split)
        return LS_OK;
    return add_step(t, path,
                    &(lsi_splitter){.kind = LSI_SPLIT_MARKS,
                                    .mark = lsi_word_text(&t->prefix)});
}

static ls_status read_splitting_step(struct ls_tokenizer *t, const char *path,
                                     const json_t *part)
{
    if (t->byte_level)
        return lsi_read_fail(path,
                             "its pre_tokenizer has steps after ByteLevel; "
                             "ByteLevel must be the last step");
    if (lsi_read_is(part, "ByteLevel"))
        return read_byte_level(t, path, part);
    if (lsi_read_is(part, "Split"))
        return read_split(t, path, part);
    if (lsi_read_is(part, "Digits"))
        return read_digits(t, path, part);
    if (lsi_read_is(part, "Metaspace"))
        return read_metaspace(t, path, part);
    return lsi_read_refuse(path, "pre_tokenizer",
                           json_object_get(part, "type"));
}

/* ---- what follows from them ---------------------------------------------- */

static void find_bytes(struct ls_tokenizer *t)
{
    for (unsigned i = 0; i < 256; i++) {
        uint8_t name[8];
        size_t n = 6;
        if (t->byte_level)
            n = lsi_utf8_write(lsi_byte_char((uint8_t)i), name);
        else
            snprintf((char *)name, sizeof name, "<0x%02X>", i);
        t->bytes[i] = lsi_vocabulary_find(&t->vocabulary, (lsi_text){name, n});
    }
}

static bool ends_with(lsi_text text, lsi_text end)
{
    return text.n >= end.n &&
           memcmp(text.at + text.n - end.n, end.at, end.n) == 0;
}

/* Whether no merge goes across a place where a mark follows something else. */
static bool blanks_divide(const struct ls_tokenizer *t, lsi_text mark)
{
    if (t->ignore_merges ||
        lsi_vocabulary_find(&t->vocabulary, mark) == LSI_NO_TOKEN)
        return false;
    for (size_t i = 0; i <= t->merges.mask; i++) {
        const lsi_merge *const merge = &t->merges.slots[i];
        if (merge->whole == LSI_NO_TOKEN)
            continue;
        const lsi_text right =
            lsi_vocabulary_content(&t->vocabulary, merge->right);
        if (right.n >= mark.n && memcmp(right.at, mark.at, mark.n) == 0 &&
            !ends_with(lsi_vocabulary_content(&t->vocabulary, merge->left),
                       mark))
            return false;
    }
    return true;
}

/* The replacement of blanks, if the rules replace nothing else; else NULL. */
static const lsi_word *mark_of(const struct ls_tokenizer *t)
{
    const lsi_word *mark = NULL;
    for (size_t i = 0; i < t->n_rules; i++) {
        const lsi_rule *const rule = &t->rules[i];
        if (rule->from.n == 0)
            continue;
        if (mark != NULL || rule->from.n != 1 || rule->from.at[0] != ' ' ||
            rule->to.n == 0)
            return NULL;
        mark = &rule->to;
    }
    return mark;
}

/* Where a long text can be divided; see lsi_cutting. */
static ls_status choose_cut(struct ls_tokenizer *t, const char *path)
{
    const lsi_word *const mark = mark_of(t);
    bool words = false, known = true;
    for (size_t i = 0; i < t->n_rules; i++)
        known &= t->rules[i].nfc; /* joins no white space with letters */
    if (!t->byte_level && t->n_steps == 0 && mark != NULL &&
        blanks_divide(t, lsi_word_text(mark)))
        LS_TRY(add_step(t, path,
                        &(lsi_splitter){.kind = LSI_SPLIT_BLANKS,
                                        .mark = lsi_word_text(mark)}));
    if (mark != NULL && t->n_steps == 1 &&
        (t->steps[0].kind == LSI_SPLIT_BLANKS ||
         t->steps[0].kind == LSI_SPLIT_MARKS))
        t->cut = LSI_CUT_BEFORE_BLANKS;
    for (size_t i = 0; i < t->n_steps; i++) {
        const lsi_split_kind kind = t->steps[i].kind;
        words |= kind == LSI_SPLIT_GPT2 || kind == LSI_SPLIT_LLAMA3 ||
                 kind == LSI_SPLIT_CL100K;
        known &= words || kind == LSI_SPLIT_DIGITS;
    }
    if (words && known)
        t->cut = LSI_CUT_BEHIND_LETTERS;
    return LS_OK;
}

ls_status lsi_read_splitting(struct ls_tokenizer *t, const char *path,
                             const json_t *root)
{
    const json_t *const rules = json_object_get(root, "normalizer");
    const json_t *const steps = json_object_get(root, "pre_tokenizer");
    for (size_t i = 0; i < lsi_read_parts(rules, "normalizers"); i++)
        LS_TRY(read_rule(t, path, lsi_read_part(rules, "normalizers", i)));
    t->n_normal = t->n_rules;
    for (size_t i = 0; i < lsi_read_parts(steps, "pretokenizers"); i++)
        LS_TRY(read_splitting_step(t, path,
                                   lsi_read_part(steps, "pretokenizers", i)));
    find_bytes(t);
    return choose_cut(t, path);
}

#include "input/text/normalize.h"

#include "base/error.h"
#include "base/memory.h"

static bool begins_with(lsi_text text, const lsi_word *word)
{
    return text.n >= word->n && memcmp(text.at, word->at, word->n) == 0;
}

ls_status lsi_replace(const lsi_rule *rule, lsi_text text, lsi_bytes *out)
{
    size_t begin = 0;
    for (size_t at = 0; at < text.n;) {
        const uint8_t *found =
            memchr(text.at + at, rule->from.at[0], text.n - at);
        if (found == NULL)
            break;
        at = (size_t)(found - text.at);
        if (!begins_with((lsi_text){found, text.n - at}, &rule->from)) {
            at++;
            continue;
        }
        LS_TRY(lsi_bytes_add(out, text.at + begin, at - begin));
        LS_TRY(lsi_bytes_add(out, rule->to.at, rule->to.n));
        at += rule->from.n;
        begin = at;
    }
    return lsi_bytes_add(out, text.at + begin, text.n - begin);
}

static ls_status apply(const lsi_rule *rule, lsi_text text, bool begins,
                       lsi_bytes *out)
{
    if (rule->nfc)
        return lsi_nfc(text, out);
    if (rule->from.n > 0)
        return lsi_replace(rule, text, out);
    if (begins && text.n > 0)
        LS_TRY(lsi_bytes_add(out, rule->to.at, rule->to.n));
    return lsi_bytes_add(out, text.at, text.n);
}

/* Rules first..end-1, one after another. */
static ls_status apply_all(const struct ls_tokenizer *t, size_t first,
                           size_t end, lsi_text text, bool begins,
                           lsi_bytes *out)
{
    lsi_bytes other = {.n = 0}, spare = {.n = 0};
    ls_status status = LS_OK;
    if (first == end)
        return lsi_bytes_add(out, text.at, text.n);
    for (size_t i = first; i + 1 < end && status == LS_OK; i++) {
        const lsi_bytes swap = other;
        other = spare;
        spare = swap;
        other.n = 0;
        status = apply(&t->rules[i], text, begins, &other);
        text = lsi_bytes_text(&other);
    }
    if (status == LS_OK)
        status = apply(&t->rules[end - 1], text, begins, out);
    lsi_free(other.at);
    lsi_free(spare.at);
    return status;
}

ls_status lsi_normalize(const struct ls_tokenizer *t, lsi_text text,
                        bool begins, lsi_bytes *out)
{
    return apply_all(t, 0, t->n_normal, text, begins, out);
}

ls_status lsi_prepare(const struct ls_tokenizer *t, lsi_text text, bool begins,
                      bool first, lsi_bytes *out)
{
    const size_t old = out->n;
    const bool prefixed =
        begins && (t->prefix_when == LSI_PREFIX_ALWAYS ||
                   (t->prefix_when == LSI_PREFIX_FIRST && first));
    if (prefixed)
        LS_TRY(lsi_bytes_add(out, t->prefix.at, t->prefix.n));
    const size_t begin = out->n;
    LS_TRY(apply_all(t, t->n_normal, t->n_rules, text, begins, out));
    const lsi_text made = lsi_bytes_piece(out, begin, out->n - begin);
    if (prefixed && begins_with(made, &t->prefix)) {
        memmove(out->at + old, made.at, made.n);
        out->n = old + made.n;
    }
    return LS_OK;
}

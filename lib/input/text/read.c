/* A tokenizer of a tokenizer.json: the parts in their order, and a checksum. */
#include "input/text/read.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "input/text/unicode.h"

/* ---- checksum ------------------------------------------------------------ */

static uint64_t hash_of_merges(const lsi_merges *merges)
{
    uint64_t sum = 0; /* the same for any order in the table */
    for (size_t i = 0; i <= merges->mask; i++)
        if (merges->slots[i].whole != LSI_NO_TOKEN)
            sum += lsi_hash(LSI_HASH_START, &merges->slots[i],
                            sizeof merges->slots[i]);
    return sum;
}

static uint64_t hash_of_word(uint64_t hash, const lsi_word *word)
{
    hash = lsi_hash(hash, &word->n, sizeof word->n);
    return lsi_hash(hash, word->at, word->n);
}

static uint64_t hash_of_splitting(uint64_t hash, const struct ls_tokenizer *t)
{
    for (size_t i = 0; i < t->n_rules; i++) {
        hash = lsi_hash(hash, &t->rules[i].nfc, sizeof t->rules[i].nfc);
        hash = hash_of_word(hash_of_word(hash, &t->rules[i].from),
                            &t->rules[i].to);
    }
    hash = hash_of_word(hash, &t->prefix);
    for (size_t i = 0; i < t->n_steps; i++) {
        const lsi_splitter *const s = &t->steps[i];
        const uint64_t numbers[] = {s->kind, s->digits, (uint64_t)s->drop,
                                    s->digest};
        hash = lsi_hash(hash, numbers, sizeof numbers);
    }
    const uint64_t flags[] = {t->prefix_when,   t->byte_level,
                              t->byte_fallback, t->fuse_unknown,
                              t->ignore_merges, t->unknown};
    return lsi_hash(hash, flags, sizeof flags);
}

static uint64_t digest_of(const struct ls_tokenizer *t)
{
    const lsi_vocabulary *const v = &t->vocabulary;
    uint64_t hash = hash_of_merges(&t->merges);
    for (uint32_t id = 0; id < v->n; id++) {
        if ((v->tokens[id].flags & LSI_TOKEN_THERE) == 0)
            continue;
        const lsi_text content = lsi_vocabulary_content(v, id);
        hash = lsi_hash(hash, &id, sizeof id);
        hash = lsi_hash(hash, &v->tokens[id].flags, 1);
        hash = lsi_hash(hash, content.at, content.n);
    }
    return hash_of_splitting(hash, t);
}

/* ---- all ----------------------------------------------------------------- */

/* Refuses settings that change the tokens of a text and are not supported. */
static ls_status refuse_limits(const char *path, const json_t *root)
{
    static const char *const names[] = {"truncation", "padding"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *const it = json_object_get(root, names[i]);
        if (it != NULL && !json_is_null(it))
            return lsi_fail(LS_ERR_UNSUPPORTED,
                            "'%s' asks for %s, which Lockstep does not "
                            "support; set \"%s\" to null",
                            path, names[i], names[i]);
    }
    return LS_OK;
}

/* In text without any of these nothing goes across white space. */
static bool crosses_blanks(const lsi_added *added, const uint8_t *classes)
{
    for (size_t i = 0; i < added->n; i++) {
        const lsi_text text = lsi_added_text(added, i);
        lsi_char_class last = LSI_CHAR_OTHER;
        for (size_t at = 0; at < text.n; at += lsi_utf8_length(text.at[at])) {
            last = classes[lsi_utf8_read(text.at + at)];
            if (last == LSI_CHAR_SPACE)
                return true;
        }
        if (last == LSI_CHAR_LETTER)
            return true;
    }
    return false;
}

ls_status lsi_tokenizer_read(struct ls_tokenizer *out, const char *path,
                             const json_t *root)
{
    LS_TRY(lsi_alloc(&out->classes, LSI_CODE_POINTS, LS_MEMORY_DATA,
                     "classes of characters"));
    lsi_char_classes(out->classes);
    LS_TRY(refuse_limits(path, root));
    LS_TRY(lsi_read_tokens(out, path, root));
    LS_TRY(lsi_read_splitting(out, path, root));
    LS_TRY(lsi_read_added(out, path, root));
    LS_TRY(lsi_read_around(out, path, root));
    LS_TRY(lsi_read_decoder(out, path, root));
    if (crosses_blanks(&out->added, out->classes) ||
        crosses_blanks(&out->normalized, out->classes))
        out->cut = LSI_CUT_NOWHERE;
    out->digest = digest_of(out);
    return LS_OK;
}

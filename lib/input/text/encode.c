#include "input/text/encode.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>

#include "array/compute/threads.h"
#include "base/error.h"
#include "base/memory.h"
#include "input/text/byte_level.h"
#include "input/text/normalize.h"
#include "input/text/unicode.h"

enum {
    CHUNK = 1 << 16,      /* bytes of a task */
    CACHE_FROM = 1 << 12, /* bytes of text that are worth a cache */
};

/* ---- words that have been seen ------------------------------------------- */

/* The tokens of short words: most words of a text are among few. */
enum {
    CACHE_SLOTS = 1 << 16,
    CACHE_WORD = 16,    /* bytes of the longest that is kept */
    CACHE_IDS = 1 << 19 /* then all are forgotten */
};

typedef struct cache_slot {
    uint64_t key[2];
    uint32_t at; /* of its tokens in the list; the token, if it is one */
    uint8_t bytes, n;
} cache_slot;

typedef struct word_cache {
    cache_slot *slots; /* NULL: no cache */
    lsi_ids ids;
} word_cache;

typedef struct cache_key {
    uint64_t key[2];
    uint8_t bytes;
} cache_key;

static inline cache_key key_of(lsi_text word)
{
    cache_key out = {{0, 0}, (uint8_t)word.n};
    assert(word.n >= 1 && word.n <= CACHE_WORD);
    if (word.n >= 8) {
        memcpy(&out.key[0], word.at, 8);
        memcpy(&out.key[1], word.at + word.n - 8, 8);
    } else if (word.n >= 4) {
        uint32_t half;
        memcpy(&half, word.at, 4);
        memcpy(&out.key[0], word.at + word.n - 4, 4);
        out.key[1] = half;
    } else {
        out.key[0] = word.at[0] | (uint64_t)word.at[word.n / 2] << 8 |
                     (uint64_t)word.at[word.n - 1] << 16;
    }
    return out;
}

/* The slot where it is, or goes. */
static inline cache_slot *slot_of(const word_cache *cache, const cache_key *key)
{
    uint64_t h = (key->key[0] + key->bytes) * UINT64_C(0x9e3779b97f4a7c15) ^
                 (key->key[1] + 1) * UINT64_C(0xc2b2ae3d27d4eb4f);
    h ^= h >> 29;
    h *= UINT64_C(0xbf58476d1ce4e5b9);
    return &cache->slots[h >> 48 & (CACHE_SLOTS - 1)];
}

static inline bool slot_has(const cache_slot *slot, const cache_key *key)
{
    return slot->key[0] == key->key[0] && slot->key[1] == key->key[1] &&
           slot->bytes == key->bytes;
}

static ls_status cache_new(word_cache *cache)
{
    return lsi_alloc_zeroed(&cache->slots, CACHE_SLOTS * sizeof(cache_slot),
                            LS_MEMORY_DATA,
                            "a cache of words and their tokens");
}

static void cache_free(word_cache *cache)
{
    lsi_free(cache->slots);
    lsi_free(cache->ids.at);
    *cache = (word_cache){.slots = NULL};
}

/* Replaces the contents of the slot with the tokens of a word. */
static ls_status cache_put(word_cache *cache, const cache_key *key,
                           const uint32_t *ids, size_t n)
{
    if (n > UINT8_MAX)
        return LS_OK;
    if (cache->ids.n + n > CACHE_IDS) {
        memset(cache->slots, 0, CACHE_SLOTS * sizeof *cache->slots);
        cache->ids.n = 0;
    }
    cache_slot *const slot = slot_of(cache, key);
    *slot = (cache_slot){.key = {key->key[0], key->key[1]},
                         .at = (uint32_t)cache->ids.n,
                         .bytes = key->bytes,
                         .n = (uint8_t)n};
    if (n == 1) {
        slot->at = ids[0];
        return LS_OK;
    }
    return lsi_ids_add(&cache->ids, ids, n);
}

/* ---- an encoder ---------------------------------------------------------- */

struct lsi_encoder {
    const struct ls_tokenizer *t;
    lsi_bytes normal, prepared, name;
    lsi_ids word; /* that is being merged */
    lsi_ids *out;
    lsi_merge_scratch merging;
    lsi_split_scratch splitting;
    word_cache cache;
    lsi_text_word_fn each_word; /* NULL: words are encoded */
    void *context;
};

/* ---- a word -------------------------------------------------------------- */

/* An unknown character becomes one token, several one together if fused. */
static ls_status push_unknown(lsi_encoder *e, bool *pending)
{
    if (e->t->unknown == LSI_NO_TOKEN)
        return LS_OK; /* and is left out */
    if (*pending && !e->t->fuse_unknown)
        LS_TRY(lsi_ids_push(&e->word, e->t->unknown));
    *pending = true;
    return LS_OK;
}

static ls_status push_bytes(lsi_encoder *e, lsi_text character, bool *all)
{
    *all = true;
    for (size_t i = 0; i < character.n; i++)
        *all &= e->t->bytes[character.at[i]] != LSI_NO_TOKEN;
    for (size_t i = 0; *all && i < character.n; i++)
        LS_TRY(lsi_ids_push(&e->word, e->t->bytes[character.at[i]]));
    return LS_OK;
}

/* A token is put after the unknown one that waits. */
static ls_status push_known(lsi_encoder *e, uint32_t id, bool *pending)
{
    if (*pending)
        LS_TRY(lsi_ids_push(&e->word, e->t->unknown));
    *pending = false;
    return lsi_ids_push(&e->word, id);
}

/*
 * The tokens of its characters. As in `tokenizers`, those of byte_fallback do
 * not go after an unknown one that waits.
 */
static ls_status push_characters(lsi_encoder *e, lsi_text word)
{
    const struct ls_tokenizer *const t = e->t;
    bool pending = false, all;
    e->word.n = 0;
    for (size_t at = 0, n; at < word.n; at += n) {
        n = t->byte_level ? 1 : lsi_utf8_within(word.at + at, word.n - at);
        const lsi_text character = {word.at + at, n};
        const uint32_t id =
            t->byte_level ? t->bytes[word.at[at]]
                          : lsi_vocabulary_find(&t->vocabulary, character);
        if (id != LSI_NO_TOKEN) {
            LS_TRY(push_known(e, id, &pending));
            continue;
        }
        all = false;
        if (t->byte_fallback && !t->byte_level)
            LS_TRY(push_bytes(e, character, &all));
        if (!all)
            LS_TRY(push_unknown(e, &pending));
    }
    return pending ? lsi_ids_push(&e->word, t->unknown) : LS_OK;
}

/* Whether the whole word is a token, independent of the merges. */
static ls_status find_whole(lsi_encoder *e, lsi_text word, uint32_t *id)
{
    e->name.n = 0;
    if (e->t->byte_level) {
        LS_TRY(lsi_byte_level_write(&e->name, word));
        word = lsi_bytes_text(&e->name);
    }
    *id = lsi_vocabulary_find(&e->t->vocabulary, word);
    return LS_OK;
}

/* Leaves its tokens in e->word. */
static ls_status merge_word(lsi_encoder *e, lsi_text word)
{
    if (e->t->ignore_merges) {
        uint32_t whole;
        LS_TRY(find_whole(e, word, &whole));
        if (whole != LSI_NO_TOKEN) {
            e->word.n = 0;
            return lsi_ids_push(&e->word, whole);
        }
    }
    LS_TRY(push_characters(e, word));
    return lsi_merges_apply(&e->t->merges, &e->merging, e->word.at, &e->word.n);
}

static ls_status encode_word(lsi_encoder *e, lsi_text word)
{
    cache_key key;
    if (e->each_word != NULL)
        return e->each_word(e->context, word);
    const bool kept = word.n <= CACHE_WORD && e->cache.slots != NULL;
    if (kept) {
        key = key_of(word);
        const cache_slot *const slot = slot_of(&e->cache, &key);
        if (slot_has(slot, &key))
            return slot->n == 1
                       ? lsi_ids_push(e->out, slot->at)
                       : lsi_ids_add(e->out, e->cache.ids.at + slot->at,
                                     slot->n);
    }
    LS_TRY(merge_word(e, word));
    if (kept)
        LS_TRY(cache_put(&e->cache, &key, e->word.at, e->word.n));
    return lsi_ids_add(e->out, e->word.at, e->word.n);
}

/* ---- a text -------------------------------------------------------------- */

/* Divides by the steps from `step` on. */
static ls_status encode_pieces(lsi_encoder *e, lsi_text text, size_t step)
{
    const struct ls_tokenizer *const t = e->t;
    if (step == t->n_steps)
        return encode_word(e, text);
    for (size_t at = 0; at < text.n;) {
        bool drop;
        const size_t end =
            lsi_split_next(&t->steps[step], &e->splitting, text, at, &drop);
        const lsi_text piece = {text.at + at, end - at};
        if (!drop)
            LS_TRY(step + 1 == t->n_steps ? encode_word(e, piece)
                                          : encode_pieces(e, piece, step + 1));
        at = end;
    }
    return e->splitting.status;
}

/* Between added tokens. */
static ls_status encode_prepared(lsi_encoder *e, lsi_text text, bool begins,
                                 bool first)
{
    const struct ls_tokenizer *const t = e->t;
    if (text.n == 0)
        return LS_OK;
    if (t->n_normal < t->n_rules || t->prefix_when != LSI_PREFIX_NEVER) {
        e->prepared.n = 0;
        LS_TRY(lsi_prepare(t, text, begins, first, &e->prepared));
        text = lsi_bytes_text(&e->prepared);
    }
    return encode_pieces(e, text, 0);
}

typedef ls_status (*stage_fn)(lsi_encoder *e, lsi_text text, bool begins,
                              bool first);

/*
 * Takes added tokens out, and passes the text between them to the next stage.
 */
static ls_status split_at_added(lsi_encoder *e, const lsi_added *added,
                                lsi_text text, bool begins, bool first,
                                stage_fn next)
{
    for (size_t at = 0; at < text.n;) {
        size_t begin = text.n, end = text.n;
        const lsi_added_token *const token =
            lsi_added_find(added, e->t->classes, text, at, &begin, &end);
        if (token == NULL)
            begin = end = text.n;
        LS_TRY(next(e, (lsi_text){text.at + at, begin - at}, begins,
                    first && at == 0));
        if (token != NULL)
            LS_TRY(lsi_ids_push(e->out, token->id));
        begins = true;
        at = end;
    }
    return LS_OK;
}

static ls_status encode_normalized(lsi_encoder *e, lsi_text text, bool begins,
                                   bool first)
{
    const struct ls_tokenizer *const t = e->t;
    if (text.n == 0)
        return LS_OK;
    if (t->n_normal > 0) {
        e->normal.n = 0;
        LS_TRY(lsi_normalize(t, text, begins, &e->normal));
        text = lsi_bytes_text(&e->normal);
    }
    return split_at_added(e, &t->normalized, text, begins, first,
                          encode_prepared);
}

static ls_status encode_text(lsi_encoder *e, lsi_text text, bool first,
                             lsi_ids *out)
{
    e->out = out;
    LS_TRY(lsi_ids_reserve(out, text.n / 4));
    return split_at_added(e, &e->t->added, text, first, first,
                          encode_normalized);
}

ls_status lsi_text_words(const lsi_encoders *encoders, int which, lsi_text text,
                         bool first, lsi_text_word_fn fn, void *context)
{
    assert(which >= 0 && which < encoders->n);
    lsi_encoder *const e = encoders->each[which];
    lsi_ids added = {.n = 0};
    assert(e->each_word == NULL);
    e->each_word = fn;
    e->context = context;
    const ls_status status = encode_text(e, text, first, &added);
    e->each_word = NULL;
    lsi_free(added.at);
    return status;
}

/* ---- where to divide ----------------------------------------------------- */

size_t lsi_text_cut(const struct ls_tokenizer *tokenizer, lsi_text text,
                    size_t from)
{
    const bool blanks_only = tokenizer->cut == LSI_CUT_BEFORE_BLANKS;
    const uint8_t *const classes = tokenizer->classes;
    if (tokenizer->cut == LSI_CUT_NOWHERE)
        return text.n;
    while (from < text.n && (text.at[from] & 0xc0) == 0x80)
        from++;
    size_t length;
    for (bool behind_letter = false; from < text.n; from += length) {
        const int n = lsi_utf8_next(text.at + from, text.n - from);
        const uint8_t kind =
            n > 0 ? classes[lsi_utf8_read(text.at + from)] : LSI_CHAR_OTHER;
        length = n > 0 ? (size_t)n : 1;
        if (behind_letter &&
            (blanks_only ? text.at[from] == ' ' : kind == LSI_CHAR_SPACE))
            return from;
        behind_letter = kind == LSI_CHAR_LETTER;
    }
    return text.n;
}

ls_status lsi_text_check(lsi_text text, size_t offset, const char *name)
{
    const size_t valid = lsi_utf8_valid(text.at, text.n);
    if (valid == text.n)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "%s is not UTF-8: byte %zu is 0x%02x. Convert text in "
                    "another encoding to UTF-8 first, for example with iconv",
                    name, offset + valid, text.at[valid]);
}

/* ---- in parallel --------------------------------------------------------- */

static void free_encoder(lsi_encoder *e)
{
    if (e == NULL)
        return;
    lsi_free(e->normal.at);
    lsi_free(e->prepared.at);
    lsi_free(e->name.at);
    lsi_free(e->word.at);
    lsi_merge_scratch_free(&e->merging);
    lsi_split_scratch_free(&e->splitting);
    cache_free(&e->cache);
    lsi_free(e);
}

static ls_status new_encoder(lsi_encoder **out, const struct ls_tokenizer *t,
                             size_t bytes)
{
    LS_TRY(lsi_alloc_zeroed(out, sizeof(lsi_encoder), LS_MEMORY_DATA,
                            "an encoder"));
    (*out)->t = t;
    return bytes >= CACHE_FROM ? cache_new(&(*out)->cache) : LS_OK;
}

ls_status lsi_encoders_new(lsi_encoders *out,
                           const struct ls_tokenizer *tokenizer, size_t bytes)
{
    const int threads = bytes > CHUNK ? lsi_threads() : 1;
    *out = (lsi_encoders){.tokenizer = tokenizer};
    LS_TRY(lsi_alloc_zeroed(&out->each, (size_t)threads * sizeof(lsi_encoder *),
                            LS_MEMORY_DATA, "encoders"));
    for (; out->n < threads; out->n++) {
        const ls_status status =
            new_encoder(&out->each[out->n], tokenizer, bytes);
        if (status != LS_OK) {
            out->n++;
            return status;
        }
    }
    return LS_OK;
}

void lsi_encoders_free(lsi_encoders *encoders)
{
    for (int i = 0; i < encoders->n; i++)
        free_encoder(encoders->each[i]);
    lsi_free(encoders->each);
    *encoders = (lsi_encoders){.n = 0};
}

/* A part of a text, and its result. */
typedef struct part {
    lsi_text text;
    lsi_ids ids;
} part;

typedef struct job {
    lsi_encoders *encoders;
    part *parts;
    size_t n;
    bool first;
    atomic_int status; /* the first error */
    lsi_error error;
} job;

static void encode_part(void *context, size_t task, int worker)
{
    job *const j = context;
    part *const p = &j->parts[task];
    int none = LS_OK;
    if (atomic_load(&j->status) != LS_OK)
        return;
    const ls_status status = encode_text(j->encoders->each[worker], p->text,
                                         j->first && task == 0, &p->ids);
    if (status != LS_OK &&
        atomic_compare_exchange_strong(&j->status, &none, (int)status))
        (void)lsi_error_keep(&j->error, status);
}

/* Divides it; *n is how many parts there are. */
static ls_status divide(const struct ls_tokenizer *t, lsi_text text, part **out,
                        size_t *n)
{
    LS_TRY(lsi_alloc_zeroed(out, (text.n / CHUNK + 1) * sizeof(part),
                            LS_MEMORY_DATA, "parts of a text"));
    *n = 0;
    for (size_t at = 0; at < text.n;) {
        const size_t end =
            text.n - at <= CHUNK ? text.n : lsi_text_cut(t, text, at + CHUNK);
        (*out)[(*n)++].text = (lsi_text){text.at + at, end - at};
        at = end;
    }
    return LS_OK;
}

static ls_status collect(const job *j, lsi_ids *out)
{
    for (size_t i = 0; i < j->n; i++)
        LS_TRY(lsi_ids_add(out, j->parts[i].ids.at, j->parts[i].ids.n));
    return LS_OK;
}

ls_status lsi_encode(lsi_encoders *encoders, lsi_text text, bool first,
                     lsi_ids *out)
{
    job j = {.encoders = encoders, .first = first};
    if (encoders->n == 1)
        return encode_text(encoders->each[0], text, first, out);
    LS_TRY(divide(encoders->tokenizer, text, &j.parts, &j.n));
    lsi_parallel_tasks(j.n, encode_part, &j);
    ls_status status = lsi_error_again(&j.error);
    if (status == LS_OK)
        status = collect(&j, out);
    for (size_t i = 0; i < j.n; i++)
        lsi_free(j.parts[i].ids.at);
    lsi_free(j.parts);
    return status;
}

/* ---- the public call ----------------------------------------------------- */

static ls_status encode_all(lsi_encoders *encoders, lsi_text text, bool special,
                            lsi_ids *ids)
{
    const struct ls_tokenizer *const t = encoders->tokenizer;
    if (special)
        LS_TRY(lsi_ids_add(ids, t->before, t->n_before));
    LS_TRY(lsi_encode(encoders, text, true, ids));
    return special ? lsi_ids_add(ids, t->after, t->n_after) : LS_OK;
}

static ls_status widen(const lsi_ids *ids, int64_t **out)
{
    LS_TRY(lsi_alloc(out, ids->n * sizeof(int64_t), LS_MEMORY_DATA, "tokens"));
    for (size_t i = 0; i < ids->n; i++)
        (*out)[i] = ids->at[i];
    return LS_OK;
}

ls_status ls_tokenizer_encode(const ls_tokenizer *tokenizer, const char *text,
                              size_t bytes, ls_tokenizer_flags flags,
                              int64_t **ids, size_t *n)
{
    const lsi_text all = {(const uint8_t *)text, bytes};
    lsi_encoders encoders;
    lsi_ids found = {.n = 0};
    LS_NEED(tokenizer, text, n, ids);
    LS_TRY(lsi_text_check(all, 0, "the text"));
    ls_status status = lsi_encoders_new(&encoders, tokenizer, bytes);
    if (status == LS_OK)
        status = encode_all(&encoders, all, (flags & LS_TOKENIZER_SPECIAL) != 0,
                            &found);
    if (status == LS_OK)
        status = widen(&found, ids);
    if (status == LS_OK)
        *n = found.n;
    lsi_encoders_free(&encoders);
    lsi_free(found.at);
    return status;
}

/*
 * The tokens of short words that have been seen: most words of a text are
 * among few.
 */
#ifndef LS_INPUT_TEXT_WORD_CACHE_H
#define LS_INPUT_TEXT_WORD_CACHE_H

#include <assert.h>

#include "base/memory.h"
#include "input/text/buffers.h"

enum {
    LSI_CACHE_SLOTS = 1 << 16,
    LSI_CACHE_WORD = 16,    /* bytes of the longest that is kept */
    LSI_CACHE_IDS = 1 << 19 /* then all are forgotten */
};

typedef struct lsi_cache_slot {
    uint64_t key[2];
    uint32_t at; /* of its tokens in the list; the token, if it is one */
    uint8_t bytes, n;
} lsi_cache_slot;

typedef struct lsi_word_cache {
    lsi_cache_slot *slots; /* NULL: there is no cache */
    lsi_ids ids;
} lsi_word_cache;

typedef struct lsi_cache_key {
    uint64_t key[2];
    uint8_t bytes;
} lsi_cache_key;

static inline lsi_cache_key lsi_cache_key_of(lsi_text word)
{
    lsi_cache_key out = {{0, 0}, (uint8_t)word.n};
    assert(word.n >= 1 && word.n <= LSI_CACHE_WORD);
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
static inline lsi_cache_slot *lsi_cache_slot_of(const lsi_word_cache *cache,
                                                const lsi_cache_key *key)
{
    uint64_t h = (key->key[0] + key->bytes) * UINT64_C(0x9e3779b97f4a7c15) ^
                 (key->key[1] + 1) * UINT64_C(0xc2b2ae3d27d4eb4f);
    h ^= h >> 29;
    h *= UINT64_C(0xbf58476d1ce4e5b9);
    return &cache->slots[h >> 48 & (LSI_CACHE_SLOTS - 1)];
}

static inline bool lsi_cache_has(const lsi_cache_slot *slot,
                                 const lsi_cache_key *key)
{
    return slot->key[0] == key->key[0] && slot->key[1] == key->key[1] &&
           slot->bytes == key->bytes;
}

ls_status lsi_word_cache_new(lsi_word_cache *cache);
void lsi_word_cache_free(lsi_word_cache *cache);

/* Puts the tokens of a word in place of what the slot has. */
ls_status lsi_word_cache_put(lsi_word_cache *cache, const lsi_cache_key *key,
                             const uint32_t *ids, size_t n);

#endif

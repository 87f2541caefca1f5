#include "input/text/word_cache.h"

#include "base/error.h"

ls_status lsi_word_cache_new(lsi_word_cache *cache)
{
    LS_TRY(lsi_alloc_zeroed(&cache->slots,
                            LSI_CACHE_SLOTS * sizeof(lsi_cache_slot),
                            LS_MEMORY_DATA, "words and their tokens"));
    return LS_OK;
}

void lsi_word_cache_free(lsi_word_cache *cache)
{
    lsi_free(cache->slots);
    lsi_free(cache->ids.at);
    *cache = (lsi_word_cache){.slots = NULL};
}

ls_status lsi_word_cache_put(lsi_word_cache *cache, const lsi_cache_key *key,
                             const uint32_t *ids, size_t n)
{
    if (n > UINT8_MAX)
        return LS_OK;
    if (cache->ids.n + n > LSI_CACHE_IDS) {
        memset(cache->slots, 0, LSI_CACHE_SLOTS * sizeof *cache->slots);
        cache->ids.n = 0;
    }
    lsi_cache_slot *const slot = lsi_cache_slot_of(cache, key);
    *slot = (lsi_cache_slot){.key = {key->key[0], key->key[1]},
                             .at = (uint32_t)cache->ids.n,
                             .bytes = key->bytes,
                             .n = (uint8_t)n};
    if (n == 1) {
        slot->at = ids[0];
        return LS_OK;
    }
    return lsi_ids_add(&cache->ids, ids, n);
}

#include "input/text/vocabulary.h"

#include <assert.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"

void lsi_vocabulary_free(lsi_vocabulary *vocabulary)
{
    lsi_free(vocabulary->pool.at);
    lsi_free(vocabulary->tokens);
    lsi_free(vocabulary->slots);
    *vocabulary = (lsi_vocabulary){.n = 0};
}

ls_status lsi_vocabulary_new(lsi_vocabulary *vocabulary, size_t n)
{
    size_t slots = 64;
    while (slots < 2 * n)
        slots *= 2;
    LS_TRY(lsi_alloc_zeroed(&vocabulary->tokens, n * sizeof(lsi_token),
                            LS_MEMORY_DATA, "a tokenizer's tokens"));
    vocabulary->n = n;
    LS_TRY(lsi_alloc_zeroed(&vocabulary->slots, slots * sizeof(uint32_t),
                            LS_MEMORY_DATA, "a tokenizer's tokens"));
    vocabulary->mask = slots - 1;
    return LS_OK;
}

/* The slot that has it, or the free one where it belongs. */
static uint32_t *slot_of(const lsi_vocabulary *v, lsi_text content)
{
    size_t i = lsi_hash(LSI_HASH_START, content.at, content.n);
    for (i ^= i >> 32;; i++) {
        uint32_t *slot = &v->slots[i & v->mask];
        if (*slot == 0 ||
            lsi_text_equal(lsi_vocabulary_content(v, *slot - 1), content))
            return slot;
    }
}

/* Files that are read are too small for a pool of 4 GiB. */
static ls_status keep(lsi_vocabulary *v, lsi_text text, uint32_t *begin,
                      uint32_t *n)
{
    if (text.n > UINT32_MAX - v->pool.n)
        return lsi_fail(LS_ERR_FORMAT, "the tokens of the vocabulary contain "
                                       "more than 4 GiB of text in total");
    *begin = (uint32_t)v->pool.n;
    *n = (uint32_t)text.n;
    return lsi_bytes_add(&v->pool, text.at, text.n);
}

ls_status lsi_vocabulary_add(lsi_vocabulary *vocabulary, uint32_t id,
                             lsi_text content, uint8_t flags)
{
    lsi_token *const token = &vocabulary->tokens[id];
    assert(id < vocabulary->n && (token->flags & LSI_TOKEN_THERE) == 0);
    LS_TRY(keep(vocabulary, content, &token->content, &token->content_n));
    token->flags = (uint8_t)(flags | LSI_TOKEN_THERE);
    uint32_t *const slot =
        slot_of(vocabulary, lsi_vocabulary_content(vocabulary, id));
    if (*slot == 0)
        *slot = id + 1;
    return LS_OK;
}

ls_status lsi_vocabulary_set_text(lsi_vocabulary *vocabulary, uint32_t id,
                                  lsi_text text)
{
    lsi_token *const token = &vocabulary->tokens[id];
    assert(id < vocabulary->n && (token->flags & LSI_TOKEN_THERE) != 0);
    if (lsi_text_equal(lsi_vocabulary_content(vocabulary, id), text)) {
        token->text = token->content;
        token->text_n = token->content_n;
        return LS_OK;
    }
    return keep(vocabulary, text, &token->text, &token->text_n);
}

lsi_text lsi_vocabulary_content(const lsi_vocabulary *vocabulary, uint32_t id)
{
    const lsi_token *const token = &vocabulary->tokens[id];
    return lsi_bytes_piece(&vocabulary->pool, token->content, token->content_n);
}

lsi_text lsi_vocabulary_text(const lsi_vocabulary *vocabulary, uint32_t id)
{
    const lsi_token *const token = &vocabulary->tokens[id];
    return lsi_bytes_piece(&vocabulary->pool, token->text, token->text_n);
}

uint32_t lsi_vocabulary_find(const lsi_vocabulary *vocabulary, lsi_text content)
{
    return *slot_of(vocabulary, content) - 1;
}

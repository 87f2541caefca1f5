#include "input/text/added.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "input/text/unicode.h"

ls_status lsi_added_new(lsi_added *added, size_t n)
{
    return lsi_alloc(&added->tokens, n * sizeof(lsi_added_token),
                     LS_MEMORY_DATA, "a tokenizer's added tokens");
}

void lsi_added_free(lsi_added *added)
{
    lsi_free(added->tokens);
    lsi_free(added->pool.at);
    *added = (lsi_added){.n = 0};
}

ls_status lsi_added_put(lsi_added *added, const lsi_added_token *token,
                        lsi_text text)
{
    if (text.n == 0)
        return LS_OK;
    added->tokens[added->n] = *token;
    added->tokens[added->n].begin = (uint32_t)added->pool.n;
    added->tokens[added->n].n = (uint32_t)text.n;
    added->tokens[added->n].first_byte = text.at[0];
    LS_TRY(lsi_bytes_add(&added->pool, text.at, text.n));
    added->n++;
    return LS_OK;
}

lsi_text lsi_added_text(const lsi_added *added, size_t index)
{
    const lsi_added_token *const token = &added->tokens[index];
    return lsi_bytes_piece(&added->pool, token->begin, token->n);
}

static int compare(const void *left, const void *right)
{
    const lsi_added_token *const a = left, *const b = right;
    if (a->first_byte != b->first_byte)
        return a->first_byte < b->first_byte ? -1 : 1;
    if (a->n != b->n)
        return a->n > b->n ? -1 : 1;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

void lsi_added_sort(lsi_added *added)
{
    qsort(added->tokens, added->n, sizeof *added->tokens, compare);
    for (size_t i = 0; i < added->n; i++)
        added->first[added->tokens[i].first_byte + 1] = (uint32_t)i + 1;
    for (size_t i = 1; i < 257; i++)
        if (added->first[i] < added->first[i - 1])
            added->first[i] = added->first[i - 1];
}

/* The longest that begins here, or NULL. */
static const lsi_added_token *begins_at(const lsi_added *added, lsi_text text,
                                        size_t at)
{
    const uint8_t c = text.at[at];
    for (uint32_t i = added->first[c]; i < added->first[c + 1]; i++) {
        const lsi_text it = lsi_added_text(added, i);
        if (it.n <= text.n - at && memcmp(it.at, text.at + at, it.n) == 0)
            return &added->tokens[i];
    }
    return NULL;
}

static bool is_space(const uint8_t *classes, lsi_text text, size_t at)
{
    return classes[lsi_utf8_read(text.at + at)] == LSI_CHAR_SPACE;
}

const lsi_added_token *lsi_added_find(const lsi_added *added,
                                      const uint8_t *classes, lsi_text text,
                                      size_t at, size_t *begin, size_t *end)
{
    const lsi_added_token *found = NULL;
    size_t place = at;
    for (; added->n > 0 && place < text.n && found == NULL; place++)
        found = begins_at(added, text, place);
    if (found == NULL)
        return NULL;
    *begin = place - 1;
    *end = *begin + found->n;
    while (found->strip_left && *begin > at) {
        size_t last = *begin - 1;
        while ((text.at[last] & 0xc0) == 0x80)
            last--;
        if (!is_space(classes, text, last))
            break;
        *begin = last;
    }
    while (found->strip_right && *end < text.n && is_space(classes, text, *end))
        *end += lsi_utf8_length(text.at[*end]);
    return found;
}

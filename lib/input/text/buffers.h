/* Growing arrays of bytes and of tokens. */
#ifndef LS_INPUT_TEXT_BUFFERS_H
#define LS_INPUT_TEXT_BUFFERS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lockstep/status.h"

/* A piece of text with another owner; without a zero at the end. */
typedef struct lsi_text {
    const uint8_t *at;
    size_t n;
} lsi_text;

static inline bool lsi_text_equal(lsi_text a, lsi_text b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.at, b.at, a.n) == 0);
}

/* All zeros is an empty one; freed by lsi_free of `at`. */
typedef struct lsi_bytes {
    uint8_t *at;
    size_t n, room;
} lsi_bytes;

/* Makes room for `more` more bytes. */
ls_status lsi_bytes_reserve(lsi_bytes *bytes, size_t more);
ls_status lsi_bytes_add(lsi_bytes *bytes, const void *data, size_t n);

/* A piece of them; of no bytes, "": NULL has no place to point to. */
static inline lsi_text lsi_bytes_piece(const lsi_bytes *bytes, size_t begin,
                                       size_t n)
{
    assert(begin <= bytes->n && n <= bytes->n - begin);
    const uint8_t *const at = n == 0 ? (const uint8_t *)"" : bytes->at + begin;
    return (lsi_text){at, n};
}

static inline lsi_text lsi_bytes_text(const lsi_bytes *bytes)
{
    return lsi_bytes_piece(bytes, 0, bytes->n);
}

/* The same of tokens. */
typedef struct lsi_ids {
    uint32_t *at;
    size_t n, room;
} lsi_ids;

ls_status lsi_ids_reserve(lsi_ids *ids, size_t more);

static inline ls_status lsi_ids_push(lsi_ids *ids, uint32_t id)
{
    if (ids->n == ids->room) {
        const ls_status status = lsi_ids_reserve(ids, 1);
        if (status != LS_OK)
            return status;
    }
    ids->at[ids->n++] = id;
    return LS_OK;
}

static inline ls_status lsi_ids_add(lsi_ids *ids, const uint32_t *more,
                                    size_t n)
{
    const ls_status status = lsi_ids_reserve(ids, n);
    for (size_t i = 0; status == LS_OK && i < n; i++)
        ids->at[ids->n++] = more[i];
    return status;
}

#endif

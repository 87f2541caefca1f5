/*
 * A table in which equal things have one number: bytes of several kinds, each
 * kept once. Numbers begin with 1. Not thread-safe; its memory is not counted.
 */
#ifndef LS_OBSERVE_INTERNED_H
#define LS_OBSERVE_INTERNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lsi_interned_thing {
    char kind;
    size_t bytes;
    void *data;
} lsi_interned_thing;

typedef struct lsi_interned {
    lsi_interned_thing *things;
    uint32_t n, room;
    uint32_t *slots; /* 0: free */
    uint32_t n_slots;
} lsi_interned;

/* The number of a thing; 0 if there is no memory. *is_new: it was not there. */
uint32_t lsi_intern(lsi_interned *table, char kind, const void *data,
                    size_t bytes, bool *is_new);

/* The thing of a number, or NULL. */
const lsi_interned_thing *lsi_interned_at(const lsi_interned *table,
                                          uint32_t number);

void lsi_interned_free(lsi_interned *table);

#endif

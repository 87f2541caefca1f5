#include "observe/interned.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* Its slot, or the free one where it belongs. */
static uint32_t *find(const lsi_interned *table, char kind, const void *data,
                      size_t bytes)
{
    const uint64_t hash =
        lsi_hash(lsi_hash(LSI_HASH_START, &kind, 1), data, bytes);
    uint32_t at = (uint32_t)hash & (table->n_slots - 1);
    for (;; at = (at + 1) & (table->n_slots - 1)) {
        const uint32_t number = table->slots[at];
        if (number == 0)
            return &table->slots[at];
        const lsi_interned_thing *const thing = &table->things[number - 1];
        if (thing->kind == kind && thing->bytes == bytes &&
            memcmp(thing->data, data, bytes) == 0)
            return &table->slots[at];
    }
}

/* At most half of the slots are used. */
static bool grow(lsi_interned *table)
{
    const uint32_t room = table->room > 0 ? 2 * table->room : 512;
    lsi_interned_thing *const things =
        realloc(table->things, room * sizeof(*things));
    if (things == NULL)
        return false;
    table->things = things;
    uint32_t *const slots = calloc((size_t)2 * room, sizeof(*slots));
    if (slots == NULL)
        return false;
    free(table->slots);
    table->slots = slots;
    table->n_slots = 2 * room;
    table->room = room;
    for (uint32_t i = 0; i < table->n; i++)
        *find(table, things[i].kind, things[i].data, things[i].bytes) = i + 1;
    return true;
}

uint32_t lsi_intern(lsi_interned *table, char kind, const void *data,
                    size_t bytes, bool *is_new)
{
    *is_new = false;
    if (table->n == table->room && !grow(table))
        return 0;
    uint32_t *const slot = find(table, kind, data, bytes);
    if (*slot != 0)
        return *slot;
    void *const copy = malloc(bytes + 1);
    if (copy == NULL)
        return 0;
    memcpy(copy, data, bytes);
    ((char *)copy)[bytes] = '\0';
    table->things[table->n++] =
        (lsi_interned_thing){.kind = kind, .bytes = bytes, .data = copy};
    *is_new = true;
    return *slot = table->n;
}

const lsi_interned_thing *lsi_interned_at(const lsi_interned *table,
                                          uint32_t number)
{
    return number > 0 && number <= table->n ? &table->things[number - 1] : NULL;
}

void lsi_interned_free(lsi_interned *table)
{
    for (uint32_t i = 0; i < table->n; i++)
        free(table->things[i].data);
    free(table->things);
    free(table->slots);
    *table = (lsi_interned){0};
}

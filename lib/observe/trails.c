#include "observe/trails.h"

#include <stdlib.h>

/* Its slot, or the free one where it belongs. At least half of them are free.
 */
static uint32_t *find(const lsi_trails *trails, lsi_trail trail)
{
    const uint64_t key = (trail.value * 2 + trail.call) ^ (uint64_t)trail.parent
                                                              << 40;
    uint64_t at = key * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    for (;; at++) {
        uint32_t *const slot =
            &trails->slots[at % (2 * (uint64_t)trails->room)];
        if (*slot == 0)
            return slot;
        const lsi_trail *const other = &trails->all[*slot - 1];
        if (other->value == trail.value && other->parent == trail.parent &&
            other->call == trail.call)
            return slot;
    }
}

static bool grow(lsi_trails *trails)
{
    const uint32_t room = trails->room > 0 ? 2 * trails->room : 512;
    if (room > LSI_MOST_TRAILS)
        return false;
    lsi_trail *const all = realloc(trails->all, room * sizeof(*all));
    if (all == NULL)
        return false;
    trails->all = all;
    uint32_t *const slots = calloc((size_t)2 * room, sizeof(*slots));
    if (slots == NULL)
        return false;
    free(trails->slots);
    trails->slots = slots;
    trails->room = room;
    for (uint32_t i = 0; i < trails->n; i++)
        *find(trails, all[i]) = i + 1;
    return true;
}

uint32_t lsi_trail_number(lsi_trails *trails, lsi_trail trail, bool *is_new)
{
    *is_new = false;
    const bool full = trails->n == trails->room && !grow(trails);
    if (full && trails->room == 0)
        return 0;
    uint32_t *const slot = find(trails, trail);
    *is_new = *slot == 0 && !full;
    if (*is_new) {
        trails->all[trails->n++] = trail;
        *slot = trails->n;
    }
    return *slot;
}

void lsi_trails_free(lsi_trails *trails)
{
    free(trails->all);
    free(trails->slots);
    *trails = (lsi_trails){0};
}

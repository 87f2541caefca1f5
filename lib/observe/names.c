#include "observe/names.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "observe/lock.h"

enum { SLOTS = 2 * LSI_NAMES };

static char names[LSI_NAMES][LSI_NAME_BYTES];
static _Atomic uint32_t n_names;
static _Atomic uint32_t slots[SLOTS]; /* 1 + a number; 0: free */

const char *lsi_name_at(uint32_t number)
{
    return number < atomic_load(&n_names) ? names[number] : NULL;
}

uint32_t lsi_names(void)
{
    return atomic_load(&n_names);
}

/* The slot of a name: its own, or the free one where it belongs. */
static _Atomic uint32_t *find_slot(const char *name)
{
    size_t at = lsi_hash(LSI_HASH_START, name, strlen(name)) % SLOTS;
    for (;; at = (at + 1) % SLOTS) {
        const uint32_t number = atomic_load(&slots[at]);
        if (number == 0 || strcmp(names[number - 1], name) == 0)
            return &slots[at];
    }
}

/* The last number is kept for all names that no longer fit. */
static uint32_t add_name(const char *name)
{
    const bool entered = lsi_observe_enter(); /* or this thread is inside */
    _Atomic uint32_t *slot = find_slot(name);
    uint32_t number = atomic_load(slot);
    const uint32_t n = atomic_load(&n_names);
    if (number == 0 && n == LSI_NAMES) {
        number = LSI_NAMES;
    } else if (number == 0) {
        snprintf(names[n], sizeof(names[n]), "%s",
                 n + 1 == LSI_NAMES ? "other" : name);
        number = n + 1;
        atomic_store(&n_names, number);
        atomic_store(slot, number);
    }
    if (entered)
        lsi_observe_unlock();
    return number - 1;
}

/* Long names are cut between two letters of UTF-8. */
uint32_t lsi_name_number(const char *name)
{
    char cut[LSI_NAME_BYTES];
    if (strlen(name) >= sizeof(cut)) {
        size_t n = sizeof(cut) - 1;
        while (n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80)
            n--;
        memcpy(cut, name, n);
        cut[n] = '\0';
        name = cut;
    }
    const uint32_t number = atomic_load(find_slot(name));
    return number != 0 ? number - 1 : add_name(name);
}

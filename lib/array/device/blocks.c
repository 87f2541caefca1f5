#include "array/device/blocks.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "array/device/device.h"
#include "base/error.h"
#include "base/memory.h"

atomic_int lsi_devices_open;
static lsi_device_blocks *all;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

void lsi_device_blocks_enter(lsi_device_blocks *blocks, lsi_device *device)
{
    pthread_rwlock_wrlock(&lock);
    *blocks = (lsi_device_blocks){.device = device, .next = all};
    all = blocks;
    atomic_fetch_add(&lsi_devices_open, 1);
    pthread_rwlock_unlock(&lock);
}

void lsi_device_blocks_leave(lsi_device_blocks *blocks)
{
    pthread_rwlock_wrlock(&lock);
    lsi_device_blocks **at = &all;
    while (*at != blocks)
        at = &(*at)->next;
    *at = blocks->next;
    atomic_fetch_sub(&lsi_devices_open, 1);
    pthread_rwlock_unlock(&lock);
    lsi_free(blocks->items);
    blocks->items = NULL;
}

/* How many begin at the address or before it. */
static size_t up_to(const lsi_device_blocks *blocks, const char *address)
{
    size_t low = 0, high = blocks->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (blocks->items[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static ls_status make_room(lsi_device_blocks *blocks)
{
    if (blocks->count < blocks->capacity)
        return LS_OK;
    const size_t capacity = blocks->capacity > 0 ? 2 * blocks->capacity : 64;
    void *items = NULL;
    LS_TRY(lsi_alloc(&items, capacity * sizeof(lsi_device_block),
                     LS_MEMORY_OTHER, "the list of a device's blocks"));
    if (blocks->count > 0)
        memcpy(items, blocks->items, blocks->count * sizeof(lsi_device_block));
    lsi_free(blocks->items);
    blocks->items = items;
    blocks->capacity = capacity;
    return LS_OK;
}

ls_status lsi_device_blocks_add(lsi_device_blocks *blocks, const void *block,
                                size_t bytes)
{
    pthread_rwlock_wrlock(&lock);
    const ls_status status = make_room(blocks);
    if (status == LS_OK) {
        const size_t at = up_to(blocks, block);
        memmove(blocks->items + at + 1, blocks->items + at,
                (blocks->count++ - at) * sizeof(lsi_device_block));
        blocks->items[at] = (lsi_device_block){block, bytes};
    }
    pthread_rwlock_unlock(&lock);
    return status;
}

void lsi_device_blocks_remove(lsi_device_blocks *blocks, const void *block)
{
    pthread_rwlock_wrlock(&lock);
    const size_t at = up_to(blocks, block) - 1;
    memmove(blocks->items + at, blocks->items + at + 1,
            (--blocks->count - at) * sizeof(lsi_device_block));
    pthread_rwlock_unlock(&lock);
}

static bool holds(const lsi_device_blocks *blocks, const char *address)
{
    const size_t n = up_to(blocks, address);
    return n > 0 &&
           address < blocks->items[n - 1].begin + blocks->items[n - 1].bytes;
}

lsi_device *lsi_device_around(const void *address)
{
    pthread_rwlock_rdlock(&lock);
    const lsi_device_blocks *blocks = all;
    while (blocks != NULL && !holds(blocks, address))
        blocks = blocks->next;
    lsi_device *const device = blocks != NULL ? blocks->device : NULL;
    pthread_rwlock_unlock(&lock);
    return device;
}

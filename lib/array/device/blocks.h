/*
 * Which device an address belongs to: each open device lists its blocks, in
 * order of their addresses, and devices and the host never share one.
 * Thread-safe.
 */
#ifndef LS_ARRAY_DEVICE_BLOCKS_H
#define LS_ARRAY_DEVICE_BLOCKS_H

#include <stddef.h>

#include "lockstep/status.h"

struct lsi_device;

typedef struct lsi_device_block {
    const char *begin;
    size_t bytes;
} lsi_device_block;

/* Of one device. */
typedef struct lsi_device_blocks {
    struct lsi_device *device;
    struct lsi_device_blocks *next; /* of another one that is open */
    lsi_device_block *items;
    size_t count, capacity;
} lsi_device_blocks;

/* A device that has been opened; it leaves before its memory goes. */
void lsi_device_blocks_enter(lsi_device_blocks *blocks,
                             struct lsi_device *device);
void lsi_device_blocks_leave(lsi_device_blocks *blocks);

ls_status lsi_device_blocks_add(lsi_device_blocks *blocks, const void *block,
                                size_t bytes);
/* One that has been added. */
void lsi_device_blocks_remove(lsi_device_blocks *blocks, const void *block);

#endif

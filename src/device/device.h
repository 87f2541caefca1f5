/*
 * A device: whose memory tensors may lie in instead of the host's. Its blocks
 * and transfers are counted, and nothing is transferred that was not asked for.
 * A device may be used by one thread at a time.
 */
#ifndef LS_DEVICE_DEVICE_H
#define LS_DEVICE_DEVICE_H

#include <stdint.h>

#include "device/table.h"
#include "lockstep/status.h"

typedef struct lsi_device lsi_device;

/*
 * *out is the caller's. LS_ERR_UNSUPPORTED if the table is of another version
 * or the device cannot be used. `table` outlives the device.
 */
ls_status lsi_device_open(lsi_device **out, const lsi_device_table *table);

/*
 * Waits for what the device still does, and sets *device to NULL. None of its
 * blocks is left. Accepts NULLs.
 */
void lsi_device_close(lsi_device **device);

/* "cuda:0". */
const char *lsi_device_name(const lsi_device *device);

/*
 * A block with undefined contents; NULL for 0 bytes. `what` names its owner in
 * errors: LS_ERR_BUDGET, LS_ERR_MEMORY, or LS_ERR_STATE if the device has
 * failed.
 */
ls_status lsi_device_take(lsi_device *device, size_t bytes, const char *what,
                          void **out);
/* Gives it back; what the device has been given before still finds it. */
void lsi_device_give(lsi_device *device, void *block, size_t bytes);

/*
 * Copies `bytes` bytes, behind all that the device has been given before. A
 * transfer from or to the host is over when the function returns; a copy on the
 * device may fail later, which the next transfer says.
 */
ls_status lsi_device_copy(lsi_device *device, void *dst, const void *src,
                          size_t bytes, lsi_transfer way);

/* Every byte of the block = byte; may fail later as a copy on the device. */
ls_status lsi_device_fill(lsi_device *device, void *dst, int byte,
                          size_t bytes);

/* Until all is done; LS_ERR_STATE with what has failed. */
ls_status lsi_device_wait(lsi_device *device);

/* No more than so many bytes at once; 0: as many as there are. */
void lsi_device_set_budget(lsi_device *device, size_t bytes);

typedef struct lsi_device_counts {
    size_t live_bytes, peak_bytes; /* of blocks */
    uint64_t blocks;               /* ever taken, but those of 0 bytes */
    uint64_t transfers[3];         /* by lsi_transfer, but those of 0 bytes */
    uint64_t bytes[3];             /* that these have moved */
} lsi_device_counts;

lsi_device_counts lsi_device_counted(const lsi_device *device);

#endif

/*
 * A device: whose memory tensors may lie in instead of the host's, and which
 * computes on what lies there. Its blocks, transfers and operations are
 * counted, and nothing is transferred that was not asked for. Whatever it is
 * given it does in that order, on one stream. A device may be used by one
 * thread at a time; where an address lies any thread may ask.
 */
#ifndef LS_ARRAY_DEVICE_DEVICE_H
#define LS_ARRAY_DEVICE_DEVICE_H

#include <stdatomic.h>
#include <stdint.h>

#include "array/device/table.h"
#include "lockstep/status.h"

typedef struct lsi_device lsi_device;

/*
 * Opens device `index` of a module; *out is the caller's. LS_ERR_UNSUPPORTED if
 * the table is of another version or the device cannot be used. `table`
 * outlives the device.
 */
ls_status lsi_device_open(lsi_device **out, const lsi_device_table *table,
                          int index);

/*
 * Waits for what the device still does, and sets *device to NULL. None of its
 * blocks is left. Accepts NULLs.
 */
void lsi_device_close(lsi_device **device);

/*
 * Where the calling thread's new tensors, tapes and parameters lie, unless they
 * say otherwise: NULL, as at first, is the host. The device outlives them.
 */
void lsi_device_set_default(lsi_device *device_or_null);
lsi_device *lsi_device_default(void);

/* "cuda:0". */
const char *lsi_device_name(const lsi_device *device);

/* ---- memory -------------------------------------------------------------- */

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

/* ---- operations (array/compute/operations.h)
 * ----------------------------------- */

extern atomic_int lsi_devices_open;
lsi_device *lsi_device_around(const void *address);

/* The device in one of whose blocks an address lies; NULL: the host's, or
 * nobody's. */
static inline lsi_device *lsi_device_of(const void *address)
{
    return atomic_load_explicit(&lsi_devices_open, memory_order_relaxed) == 0
               ? NULL
               : lsi_device_around(address);
}

/* What its module can do (NULL: nothing), and where that is given to. */
const struct lsi_operations *lsi_device_operations(const lsi_device *device);
lsi_device_stream *lsi_device_main_stream(lsi_device *device);

/* Counts an operation that the module has taken (0), or LS_ERR_STATE. */
ls_status lsi_device_did(lsi_device *device, int result);

/* LS_ERR_UNSUPPORTED: the module does not have that operation. */
ls_status lsi_device_lacks(const lsi_device *device, const char *operation);

/*
 * What became of an operation that returns nothing: its failure is the
 * device's until somebody asks.
 */
void lsi_device_keep(lsi_device *device, ls_status status);

/* The first failure that was kept, and forgets it; LS_OK if there is none, and
 * for NULL. lsi_device_wait asks, too. */
ls_status lsi_device_failure(lsi_device *device_or_null);

/* ---- accounting ---------------------------------------------------------- */

typedef struct lsi_device_counts {
    size_t live_bytes, peak_bytes; /* of blocks */
    uint64_t blocks;               /* ever taken, but those of 0 bytes */
    uint64_t transfers[3];         /* by lsi_transfer, but those of 0 bytes */
    uint64_t bytes[3];             /* that these have moved */
    uint64_t operations;           /* on whole arrays */
} lsi_device_counts;

lsi_device_counts lsi_device_counted(const lsi_device *device);

#endif

#include "array/device/device.h"

#include <stdio.h>

#include "array/device/blocks.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/spans.h"

struct lsi_device {
    const lsi_device_table *table;
    lsi_device_context *context;
    lsi_device_stream *stream;
    lsi_device_blocks blocks;
    size_t budget; /* 0: none */
    lsi_device_counts counts;
    ls_status status; /* of operations that could not be given to it */
    char message[256];
    char name[32];
};

static ls_status failed(const lsi_device *device)
{
    return lsi_fail(LS_ERR_STATE, "%s: %s", device->name,
                    device->table->error(device->context));
}

/* ---- life ---------------------------------------------------------------- */

static ls_status open_both(lsi_device *device, int index)
{
    const lsi_device_table *const table = device->table;
    if (table->open(index, &device->context) != 0)
        return lsi_fail(LS_ERR_UNSUPPORTED, "%s cannot be used: %s",
                        device->name, table->error(NULL));
    if (table->stream_open(device->context, &device->stream) == 0)
        return LS_OK;
    const ls_status status = failed(device);
    table->close(device->context);
    return status;
}

ls_status lsi_device_open(lsi_device **out, const lsi_device_table *table,
                          int index)
{
    if (table->version != LSI_DEVICE_VERSION)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "the module for %s devices belongs to another version "
                        "of the library (%d, this is %d)",
                        table->kind, table->version, LSI_DEVICE_VERSION);
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(lsi_device), LS_MEMORY_OTHER,
                            "a device"));
    lsi_device *device = block;
    device->table = table;
    snprintf(device->name, sizeof(device->name), "%s:%d", table->kind, index);
    const ls_status status = open_both(device, index);
    if (status != LS_OK) {
        lsi_free(device);
        return status;
    }
    lsi_device_blocks_enter(&device->blocks, device);
    *out = device;
    return LS_OK;
}

void lsi_device_close(lsi_device **device)
{
    if (device == NULL || *device == NULL)
        return;
    lsi_device *const closed = *device;
    lsi_device_blocks_leave(&closed->blocks);
    closed->table->stream_close(closed->stream);
    closed->table->close(closed->context);
    lsi_free(closed);
    *device = NULL;
}

static _Thread_local lsi_device *usual;

void lsi_device_set_default(lsi_device *device)
{
    usual = device;
}

lsi_device *lsi_device_default(void)
{
    return usual;
}

const char *lsi_device_name(const lsi_device *device)
{
    return device->name;
}

/* ---- memory -------------------------------------------------------------- */

static ls_status check_budget(const lsi_device *device, size_t bytes,
                              const char *what)
{
    const size_t live = device->counts.live_bytes;
    if (device->budget == 0 ||
        (live <= device->budget && bytes <= device->budget - live))
        return LS_OK;
    return lsi_fail(LS_ERR_BUDGET,
                    "%s: %zu bytes for %s exceed the memory budget of %zu "
                    "bytes, of which %zu are in use",
                    device->name, bytes, what, device->budget, live);
}

static ls_status allocate(lsi_device *device, size_t bytes, const char *what,
                          void **out)
{
    const int result = device->table->allocate(device->stream, bytes, out);
    if (result == LSI_DEVICE_FULL)
        return lsi_fail(LS_ERR_MEMORY,
                        "%s has no memory for %s: %zu bytes, besides %zu in "
                        "use",
                        device->name, what, bytes, device->counts.live_bytes);
    if (result != 0)
        return failed(device);
    const ls_status status =
        lsi_device_blocks_add(&device->blocks, *out, bytes);
    if (status != LS_OK)
        device->table->release(device->stream, *out);
    return status;
}

ls_status lsi_device_take(lsi_device *device, size_t bytes, const char *what,
                          void **out)
{
    if (bytes == 0) {
        *out = NULL;
        return LS_OK;
    }
    LS_TRY(check_budget(device, bytes, what));
    LS_TRY(allocate(device, bytes, what, out));
    lsi_device_counts *counts = &device->counts;
    counts->blocks++;
    counts->live_bytes += bytes;
    if (counts->live_bytes > counts->peak_bytes)
        counts->peak_bytes = counts->live_bytes;
    return LS_OK;
}

void lsi_device_give(lsi_device *device, void *block, size_t bytes)
{
    if (bytes == 0)
        return;
    lsi_device_blocks_remove(&device->blocks, block);
    device->table->release(device->stream, block);
    device->counts.live_bytes -= bytes;
}

ls_status lsi_device_copy(lsi_device *device, void *dst, const void *src,
                          size_t bytes, lsi_transfer way)
{
    static const char *const names[] = {"copy_to_device", "copy_from_device",
                                        "copy_on_device"};
    if (bytes == 0)
        return LS_OK;
    LSI_SPAN(KERNEL, names[way], bytes, 0);
    if (device->table->copy(device->stream, dst, src, bytes, way) != 0)
        return failed(device);
    device->counts.transfers[way]++;
    device->counts.bytes[way] += bytes;
    return way == LSI_TRANSFER_ON_DEVICE ? LS_OK : lsi_device_wait(device);
}

ls_status lsi_device_fill(lsi_device *device, void *dst, int byte, size_t bytes)
{
    if (bytes == 0 ||
        device->table->fill(device->stream, dst, byte, bytes) == 0)
        return LS_OK;
    return failed(device);
}

ls_status lsi_device_wait(lsi_device *device)
{
    LSI_SPAN(WAIT, "device", 0, 0);
    if (device->table->wait(device->stream) != 0)
        return failed(device);
    return lsi_device_failure(device);
}

void lsi_device_set_budget(lsi_device *device, size_t bytes)
{
    device->budget = bytes;
}

/* ---- operations ---------------------------------------------------------- */

const struct lsi_operations *lsi_device_operations(const lsi_device *device)
{
    return device->table->operations;
}

lsi_device_stream *lsi_device_main_stream(lsi_device *device)
{
    return device->stream;
}

ls_status lsi_device_did(lsi_device *device, int result)
{
    if (result != 0)
        return failed(device);
    device->counts.operations++;
    return LS_OK;
}

ls_status lsi_device_lacks(const lsi_device *device, const char *operation)
{
    return lsi_fail(LS_ERR_UNSUPPORTED, "%s has no operation %s", device->name,
                    operation);
}

void lsi_device_keep(lsi_device *device, ls_status status)
{
    if (status == LS_OK || device->status != LS_OK)
        return;
    device->status = status;
    snprintf(device->message, sizeof(device->message), "%s", ls_last_error());
}

ls_status lsi_device_failure(lsi_device *device)
{
    if (device == NULL || device->status == LS_OK)
        return LS_OK;
    const ls_status status = device->status;
    device->status = LS_OK;
    return lsi_fail(status, "%s", device->message);
}

lsi_device_counts lsi_device_counted(const lsi_device *device)
{
    return device->counts;
}

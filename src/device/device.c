#include "device/device.h"

#include "base/error.h"
#include "base/memory.h"

struct lsi_device {
    const lsi_device_table *table;
    lsi_stream *stream;
    size_t budget; /* 0: none */
    lsi_device_counts counts;
};

static ls_status failed(const lsi_device *device)
{
    return lsi_fail(LS_ERR_STATE, "%s: %s", device->table->name,
                    device->table->error(device->stream));
}

ls_status lsi_device_open(lsi_device **out, const lsi_device_table *table)
{
    if (table->version != LSI_DEVICE_VERSION)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "%s belongs to another version of the library (%d, "
                        "this is %d)",
                        table->name, table->version, LSI_DEVICE_VERSION);
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(lsi_device), LS_MEMORY_OTHER,
                            "a device"));
    lsi_device *device = block;
    device->table = table;
    if (table->open(&device->stream) != 0) {
        lsi_free(device);
        return lsi_fail(LS_ERR_UNSUPPORTED, "%s cannot be used: %s",
                        table->name, table->error(NULL));
    }
    *out = device;
    return LS_OK;
}

void lsi_device_close(lsi_device **device)
{
    if (device == NULL || *device == NULL)
        return;
    (*device)->table->close((*device)->stream);
    lsi_free(*device);
    *device = NULL;
}

const char *lsi_device_name(const lsi_device *device)
{
    return device->table->name;
}

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
                    device->table->name, bytes, what, device->budget, live);
}

ls_status lsi_device_take(lsi_device *device, size_t bytes, const char *what,
                          void **out)
{
    if (bytes == 0) {
        *out = NULL;
        return LS_OK;
    }
    LS_TRY(check_budget(device, bytes, what));
    const int result = device->table->allocate(device->stream, bytes, out);
    if (result == LSI_DEVICE_FULL)
        return lsi_fail(LS_ERR_MEMORY,
                        "%s has no memory for %s: %zu bytes, besides %zu in "
                        "use",
                        device->table->name, what, bytes,
                        device->counts.live_bytes);
    if (result != 0)
        return failed(device);
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
    device->table->release(device->stream, block);
    device->counts.live_bytes -= bytes;
}

ls_status lsi_device_copy(lsi_device *device, void *dst, const void *src,
                          size_t bytes, lsi_transfer way)
{
    if (bytes == 0)
        return LS_OK;
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
    return device->table->wait(device->stream) == 0 ? LS_OK : failed(device);
}

void lsi_device_set_budget(lsi_device *device, size_t bytes)
{
    device->budget = bytes;
}

lsi_device_counts lsi_device_counted(const lsi_device *device)
{
    return device->counts;
}

#include "array/device/cuda/cuda.h"

static const lsi_device_table table = {
    .version = LSI_DEVICE_VERSION,
    .kind = "cuda",
    .count = lsi_cuda_count,
    .describe = lsi_cuda_describe,
    .open = lsi_cuda_open,
    .close = lsi_cuda_close,
    .error = lsi_cuda_error,
    .stream_open = lsi_cuda_stream_open,
    .stream_close = lsi_cuda_stream_close,
    .wait = lsi_cuda_wait,
    .event_make = lsi_cuda_event_make,
    .event_free = lsi_cuda_event_free,
    .event_record = lsi_cuda_event_record,
    .event_await = lsi_cuda_event_await,
    .event_elapsed = lsi_cuda_event_elapsed,
    .allocate = lsi_cuda_allocate,
    .release = lsi_cuda_release,
    .pin = lsi_cuda_pin,
    .unpin = lsi_cuda_unpin,
    .copy = lsi_cuda_copy,
    .fill = lsi_cuda_fill,
    .share_allocate = lsi_cuda_share_allocate,
    .share_release = lsi_cuda_share_release,
    .share = lsi_cuda_share,
    .attach = lsi_cuda_attach,
    .detach = lsi_cuda_detach,
    .operations = NULL,
};

/* LSI_DEVICE_SYMBOL. */
__attribute__((visibility("default"))) const lsi_device_table *
lockstep_device(void);
const lsi_device_table *lockstep_device(void)
{
    return &table;
}

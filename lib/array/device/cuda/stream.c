/* Streams, which do not wait for the default one, and events between them. */
#include <stdio.h>
#include <stdlib.h>

#include "array/device/cuda/cuda.h"

struct lsi_device_stream {
    lsi_device_context *context;
    CUstream stream;
};

struct lsi_device_event {
    lsi_device_context *context;
    CUevent event;
};

static int no_memory(lsi_device_context *context)
{
    snprintf(context->sentence, sizeof(context->sentence),
             "the host has no memory");
    return -1;
}

/* ---- streams ------------------------------------------------------------- */

lsi_device_context *lsi_cuda_context_of(const lsi_device_stream *stream)
{
    return stream->context;
}

CUstream lsi_cuda_stream_of(const lsi_device_stream *stream)
{
    return stream->stream;
}

int lsi_cuda_stream_open(lsi_device_context *context, lsi_device_stream **out)
{
    lsi_device_stream *const stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return no_memory(context);
    stream->context = context;
    if (!lsi_cuda_enter(context) ||
        lsi_cuda_leave(context,
                       lsi_cuda.cuStreamCreate(&stream->stream,
                                               LSI_CUDA_STREAM_NON_BLOCKING),
                       "cuStreamCreate") != 0) {
        free(stream);
        return -1;
    }
    *out = stream;
    return 0;
}

void lsi_cuda_stream_close(lsi_device_stream *stream)
{
    (void)lsi_cuda_wait(stream);
    if (lsi_cuda_enter_to_free(stream->context))
        (void)lsi_cuda_leave(stream->context,
                             lsi_cuda.cuStreamDestroy(stream->stream),
                             "cuStreamDestroy");
    free(stream);
}

int lsi_cuda_wait(lsi_device_stream *stream)
{
    if (!lsi_cuda_enter(stream->context))
        return -1;
    return lsi_cuda_leave_wait(stream->context,
                               lsi_cuda.cuStreamSynchronize(stream->stream),
                               "cuStreamSynchronize");
}

/* ---- events -------------------------------------------------------------- */

int lsi_cuda_event_make(lsi_device_context *context, lsi_device_event **out)
{
    lsi_device_event *const event = calloc(1, sizeof(*event));
    if (event == NULL)
        return no_memory(context);
    event->context = context;
    if (!lsi_cuda_enter(context) ||
        lsi_cuda_leave(context, lsi_cuda.cuEventCreate(&event->event, 0),
                       "cuEventCreate") != 0) {
        free(event);
        return -1;
    }
    *out = event;
    return 0;
}

void lsi_cuda_event_free(lsi_device_event *event)
{
    if (lsi_cuda_enter_to_free(event->context))
        (void)lsi_cuda_leave(event->context,
                             lsi_cuda.cuEventDestroy(event->event),
                             "cuEventDestroy");
    free(event);
}

int lsi_cuda_event_record(lsi_device_event *event, lsi_device_stream *stream)
{
    if (!lsi_cuda_enter(stream->context))
        return -1;
    return lsi_cuda_leave(stream->context,
                          lsi_cuda.cuEventRecord(event->event, stream->stream),
                          "cuEventRecord");
}

int lsi_cuda_event_await(lsi_device_event *event, lsi_device_stream *stream)
{
    if (!lsi_cuda_enter(stream->context))
        return -1;
    return lsi_cuda_leave(
        stream->context,
        lsi_cuda.cuStreamWaitEvent(stream->stream, event->event, 0),
        "cuStreamWaitEvent");
}

static int wait_for(lsi_device_event *event)
{
    if (!lsi_cuda_enter(event->context))
        return -1;
    return lsi_cuda_leave_wait(event->context,
                               lsi_cuda.cuEventSynchronize(event->event),
                               "cuEventSynchronize");
}

int lsi_cuda_event_elapsed(lsi_device_event *from, lsi_device_event *to,
                           double *ms)
{
    float elapsed = 0.0F;
    if (wait_for(from) != 0 || wait_for(to) != 0 ||
        !lsi_cuda_enter(to->context))
        return -1;
    const CUresult result =
        lsi_cuda.cuEventElapsedTime(&elapsed, from->event, to->event);
    if (lsi_cuda_leave(to->context, result, "cuEventElapsedTime") != 0)
        return -1;
    *ms = elapsed;
    return 0;
}

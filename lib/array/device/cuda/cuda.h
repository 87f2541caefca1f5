/*
 * The module for NVIDIA's GPUs, over CUDA's driver. A device is used by its
 * primary context, which other libraries of the process use, too; each call
 * makes it current and leaves the caller's as it was.
 */
#ifndef LS_ARRAY_DEVICE_CUDA_CUDA_H
#define LS_ARRAY_DEVICE_CUDA_CUDA_H

#include <stdbool.h>

#include "array/device/cuda/driver.h"
#include "array/device/table.h"

struct lsi_device_context {
    CUdevice device;
    CUcontext primary;
    bool has_pools; /* allocates and releases in the order of a stream */
    bool is_lost;   /* something has failed after which nothing works */
    char sentence[LSI_CUDA_SENTENCE_BYTES];
};

/* The two parts of a stream. */
lsi_device_context *lsi_cuda_context_of(const lsi_device_stream *stream);
CUstream lsi_cuda_stream_of(const lsi_device_stream *stream);

/* ---- each call ----------------------------------------------------------- */

/* False, and a sentence is there, if the device cannot be used any more. */
bool lsi_cuda_enter(lsi_device_context *context);

/* The same to give something back, which is tried also after a failure. */
bool lsi_cuda_enter_to_free(lsi_device_context *context);

/*
 * Ends what a successful lsi_cuda_enter has begun: 0, or -1 and a sentence that
 * begins as the format says, if `result` is that of a failure.
 */
int lsi_cuda_leave(lsi_device_context *context, CUresult result,
                   const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same if any failure means that earlier work has failed. */
int lsi_cuda_leave_wait(lsi_device_context *context, CUresult result,
                        const char *what);

/* ---- rows of the table --------------------------------------------------- */

int lsi_cuda_count(int *n);
int lsi_cuda_describe(int index, lsi_device_facts *out);
int lsi_cuda_open(int index, lsi_device_context **out);
void lsi_cuda_close(lsi_device_context *context);
const char *lsi_cuda_error(const lsi_device_context *context);

int lsi_cuda_stream_open(lsi_device_context *context, lsi_device_stream **out);
void lsi_cuda_stream_close(lsi_device_stream *stream);
int lsi_cuda_wait(lsi_device_stream *stream);
int lsi_cuda_event_make(lsi_device_context *context, lsi_device_event **out);
void lsi_cuda_event_free(lsi_device_event *event);
int lsi_cuda_event_record(lsi_device_event *event, lsi_device_stream *stream);
int lsi_cuda_event_await(lsi_device_event *event, lsi_device_stream *stream);
int lsi_cuda_event_elapsed(lsi_device_event *from, lsi_device_event *to,
                           double *ms);

int lsi_cuda_allocate(lsi_device_stream *stream, size_t bytes, void **out);
void lsi_cuda_release(lsi_device_stream *stream, void *block);
int lsi_cuda_pin(lsi_device_context *context, size_t bytes, void **out);
void lsi_cuda_unpin(lsi_device_context *context, void *block);
int lsi_cuda_copy(lsi_device_stream *stream, void *dst, const void *src,
                  size_t bytes, lsi_transfer way);
int lsi_cuda_fill(lsi_device_stream *stream, void *dst, int byte, size_t bytes);
int lsi_cuda_share_allocate(lsi_device_context *context, size_t bytes,
                            void **out);
void lsi_cuda_share_release(lsi_device_context *context, void *block);
int lsi_cuda_share(lsi_device_context *context, const void *block,
                   lsi_device_share *out);
int lsi_cuda_attach(lsi_device_context *context, const lsi_device_share *share,
                    void **out);
void lsi_cuda_detach(lsi_device_context *context, void *block);

#endif

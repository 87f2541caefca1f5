/* A device of the module for NVIDIA's GPUs, over the driver of the tests. */
#ifndef TESTS_UNIT_DEVICE_CUDA_DEVICE_H
#define TESTS_UNIT_DEVICE_CUDA_DEVICE_H

#include "array/device/find.h"
#include "driver/standin.h"
#include "testing.h"

extern const standin_control *driver;

/* Before the module does so; false, and stderr says why, if it cannot be. */
bool load_driver(void);

static const standin_settings slow = {.devices = 2, .longest_nap = 2000};

/* A device with one stream. */
typedef struct opened {
    const lsi_device_table *table;
    lsi_device_context *context;
    lsi_device_stream *stream;
} opened;

opened open_device(const char *name, standin_settings settings);
void close_device(opened *o);

#define assert_done(o, call)                                                   \
    do {                                                                       \
        if ((call) != 0)                                                       \
            fail_msg("%s: %s", #call, (o)->table->error((o)->context));        \
    } while (0)

#define assert_says(o, call, result, sentence)                                 \
    do {                                                                       \
        assert_int_equal(call, result);                                        \
        assert_string_equal((o)->table->error((o)->context), sentence);        \
    } while (0)

void *take(const opened *o, size_t bytes);
void copy(const opened *o, void *dst, const void *src, size_t bytes,
          lsi_transfer way);

/* To be freed with free(). */
unsigned char *random_bytes(size_t n, unsigned seed);

#endif

#include "cuda_device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

const standin_control *driver;

bool load_driver(void)
{
    setenv("LOCKSTEP_MODULES", BUILT_MODULES, 1);
    /* Who asks for libcuda.so.1 afterwards gets what has that name already. */
    void *const standin = dlopen(STANDIN_DRIVER, RTLD_NOW);
    driver = standin == NULL ? NULL : dlsym(standin, "standin");
    if (driver == NULL)
        fprintf(stderr, "%s\n", dlerror());
    return driver != NULL;
}

opened open_device(const char *name, standin_settings settings)
{
    opened o = {NULL, NULL, NULL};
    int index = -1;
    driver->set(settings);
    assert_ok(lsi_device_find(name, &o.table, &index));
    assert_int_equal(o.table->open(index, &o.context), 0);
    assert_int_equal(o.table->stream_open(o.context, &o.stream), 0);
    return o;
}

void close_device(opened *o)
{
    o->table->stream_close(o->stream);
    o->table->close(o->context);
}

void *take(const opened *o, size_t bytes)
{
    void *block = NULL;
    assert_done(o, o->table->allocate(o->stream, bytes, &block));
    assert_int_equal((uintptr_t)block % 64, 0);
    return block;
}

void copy(const opened *o, void *dst, const void *src, size_t bytes,
          lsi_transfer way)
{
    assert_done(o, o->table->copy(o->stream, dst, src, bytes, way));
}

unsigned char *random_bytes(size_t n, unsigned seed)
{
    unsigned char *bytes = malloc(n);
    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525U + 1013904223U;
        bytes[i] = (unsigned char)(seed >> 24);
    }
    return bytes;
}

/* Files of the recorder, made chunk by chunk (observe/chunks.h). */
#ifndef TESTS_CHUNKS_H
#define TESTS_CHUNKS_H

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "observe/chunks.h"
#include "report/timeline_private.h"

#include "testing.h"

typedef struct chunks_bytes {
    uint8_t data[2048];
    size_t n;
} chunks_bytes;

static inline void chunks_put(chunks_bytes *b, const void *data, size_t n)
{
    assert_true(b->n + n <= sizeof b->data);
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

static inline void chunks_put_chunk(chunks_bytes *b, char letter,
                                    const void *data, size_t n)
{
    const uint8_t head[5] = {(uint8_t)letter, (uint8_t)n, (uint8_t)(n >> 8)};
    chunks_put(b, head, sizeof head);
    chunks_put(b, data, n);
}

/* The magic, and a header of rank 0 of 2 with further members. */
static inline chunks_bytes chunks_begin(const char *members)
{
    char head[512];
    chunks_bytes b = {.n = 0};
    const int n = snprintf(
        head, sizeof head,
        "{\"lockstep_trace\":2,\"rank\":0,\"size\":2,\"pid\":9,\"host\":\"h\","
        "\"boot\":\"b\",\"job\":\"j\",\"version\":\"0\",%s}",
        members);
    chunks_put(&b, LSI_CHUNKS_MAGIC, LSI_CHUNKS_MAGIC_BYTES);
    chunks_put_chunk(&b, 'H', head, (size_t)n);
    return b;
}

/* The path of a file in memory with these bytes, always the same one. */
static inline const char *chunks_file(const void *data, size_t n)
{
    static int fd = -1;
    static char path[40];
    if (fd < 0)
        fd = memfd_create("chunks", MFD_CLOEXEC);
    assert_true(fd >= 0 && ftruncate(fd, 0) == 0);
    assert_int_equal(pwrite(fd, data, n, 0), n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

/* Reads a file of a trace, with all its spans. */
static inline ls_status chunks_read(const char *path,
                                    lsi_timeline_process **out)
{
    lsi_timeline_process *process = NULL;
    LS_TRY(lsi_timeline_add_file(path, &process));
    ls_status status = lsi_timeline_check(process);
    if (status == LS_OK)
        status = lsi_timeline_load(process);
    if (status == LS_OK)
        *out = process;
    else
        lsi_timeline_process_free(&process);
    return status;
}

/* A chunk of these bytes. */
#define CHUNK(b, letter, ...)                                                  \
    do {                                                                       \
        const uint8_t chunk_[] = {__VA_ARGS__};                                \
        chunks_put_chunk(b, letter, chunk_, sizeof chunk_);                    \
    } while (0)

#endif

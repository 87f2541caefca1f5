#include "input/text/unicode.h"

#include <string.h>

static const struct range {
    uint8_t kind;
    uint32_t first, last;
} ranges[] = {
#define X(kind, first, last) {LSI_CHAR_##kind, first, last},
#include "input/text/unicode_classes.def"
#undef X
    /* White_Space, which has not changed since Unicode 6.3. */
    {LSI_CHAR_SPACE, 0x09, 0x0d},     {LSI_CHAR_SPACE, 0x20, 0x20},
    {LSI_CHAR_SPACE, 0x85, 0x85},     {LSI_CHAR_SPACE, 0xa0, 0xa0},
    {LSI_CHAR_SPACE, 0x1680, 0x1680}, {LSI_CHAR_SPACE, 0x2000, 0x200a},
    {LSI_CHAR_SPACE, 0x2028, 0x2029}, {LSI_CHAR_SPACE, 0x202f, 0x202f},
    {LSI_CHAR_SPACE, 0x205f, 0x205f}, {LSI_CHAR_SPACE, 0x3000, 0x3000},
};

void lsi_char_classes(uint8_t table[LSI_CODE_POINTS])
{
    memset(table, LSI_CHAR_OTHER, LSI_CODE_POINTS);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        memset(table + ranges[i].first, ranges[i].kind,
               ranges[i].last - ranges[i].first + 1);
}

size_t lsi_utf8_write(uint32_t code, uint8_t out[4])
{
    const size_t n = code < 0x80      ? 1
                     : code < 0x800   ? 2
                     : code < 0x10000 ? 3
                                      : 4;
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, code >>= 6)
        out[i] = (uint8_t)(0x80 | (code & 0x3f));
    out[0] = (uint8_t)(first[n] | code);
    return n;
}

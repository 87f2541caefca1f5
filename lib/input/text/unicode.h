/* UTF-8, and the kinds of characters. */
#ifndef LS_INPUT_TEXT_UNICODE_H
#define LS_INPUT_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/utf8.h"

/* As \p{L}, \p{N} and \s of regular expressions. */
typedef enum lsi_char_class {
    LSI_CHAR_OTHER,
    LSI_CHAR_LETTER,
    LSI_CHAR_NUMBER,
    LSI_CHAR_SPACE
} lsi_char_class;

enum { LSI_CODE_POINTS = 0x110000 };

/* Fills a table with the lsi_char_class of each code point. */
void lsi_char_classes(uint8_t table[LSI_CODE_POINTS]);

/* Never more than the n bytes that are there, n > 0. */
static inline size_t lsi_utf8_within(const uint8_t *at, size_t n)
{
    const size_t length = lsi_utf8_length(*at);
    return length < n ? length : n;
}

/* A character of valid UTF-8. */
static inline uint32_t lsi_utf8_read(const uint8_t *at)
{
    const uint32_t a = at[0];
    if (a < 0x80)
        return a;
    if (a < 0xe0)
        return (a & 0x1f) << 6 | (at[1] & 0x3fU);
    if (a < 0xf0)
        return (a & 0x0f) << 12 | (at[1] & 0x3fU) << 6 | (at[2] & 0x3fU);
    return (a & 0x07) << 18 | (at[1] & 0x3fU) << 12 | (at[2] & 0x3fU) << 6 |
           (at[3] & 0x3fU);
}

/* Writes a code point; the bytes it takes, at most 4. */
size_t lsi_utf8_write(uint32_t code, uint8_t out[4]);

#endif

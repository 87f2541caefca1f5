/* Whether bytes are UTF-8. */
#ifndef LS_BASE_UTF8_H
#define LS_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The length of a character of valid UTF-8 by its first byte. */
static inline size_t lsi_utf8_length(uint8_t first)
{
    return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/*
 * How a text of n > 0 bytes begins: the length of a whole valid character; 0 if
 * the text ends within one that is valid so far; else minus the number of bytes
 * that are to be taken for one U+FFFD (Unicode, "maximal subpart").
 */
int lsi_utf8_next(const uint8_t *at, size_t n);

/* Where n bytes cease to be UTF-8; n if all of them are. */
size_t lsi_utf8_valid(const uint8_t *at, size_t n);

#endif

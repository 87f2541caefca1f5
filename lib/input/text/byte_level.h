/*
 * GPT-2's way to write bytes as characters: bytes that are printable in Latin-1
 * stand for themselves, the others are characters from U+0100 on. A
 * tokenizer.json with ByteLevel is written in them.
 */
#ifndef LS_INPUT_TEXT_BYTE_LEVEL_H
#define LS_INPUT_TEXT_BYTE_LEVEL_H

#include <stdbool.h>

#include "input/text/buffers.h"

/* The character that stands for a byte. */
uint32_t lsi_byte_char(uint8_t byte);

/* Appends bytes as characters. */
ls_status lsi_byte_level_write(lsi_bytes *out, lsi_text bytes);

/*
 * Appends the bytes for which characters stand; *all becomes false, and nothing
 * is appended, if one of them stands for none.
 */
ls_status lsi_byte_level_read(lsi_bytes *out, lsi_text chars, bool *all);

#endif

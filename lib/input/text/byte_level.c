#include "input/text/byte_level.h"

#include "base/error.h"
#include "input/text/unicode.h"

static bool is_printable(unsigned byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
           byte >= 0xae;
}

uint32_t lsi_byte_char(uint8_t byte)
{
    uint32_t others = 0;
    if (is_printable(byte))
        return byte;
    for (unsigned i = 0; i < byte; i++)
        others += !is_printable(i);
    return 0x100 + others;
}

/* -1 if it stands for none. */
static int byte_of(uint32_t code)
{
    enum { OTHERS = 68 }; /* bytes that are not printable */
    if (code < 0x100)
        return is_printable(code) ? (int)code : -1;
    if (code >= 0x100 + OTHERS)
        return -1;
    unsigned byte = 0;
    for (uint32_t left = code - 0x100;; byte++)
        if (!is_printable(byte) && left-- == 0)
            return (int)byte;
}

ls_status lsi_byte_level_write(lsi_bytes *out, lsi_text bytes)
{
    LS_TRY(lsi_bytes_reserve(out, 2 * bytes.n));
    for (size_t i = 0; i < bytes.n; i++)
        out->n += lsi_utf8_write(lsi_byte_char(bytes.at[i]), out->at + out->n);
    return LS_OK;
}

ls_status lsi_byte_level_read(lsi_bytes *out, lsi_text chars, bool *all)
{
    const size_t begin = out->n;
    LS_TRY(lsi_bytes_reserve(out, chars.n));
    *all = true;
    for (size_t i = 0; i < chars.n; i += lsi_utf8_length(chars.at[i])) {
        const int byte = byte_of(lsi_utf8_read(chars.at + i));
        if (byte < 0) {
            out->n = begin;
            *all = false;
            return LS_OK;
        }
        out->at[out->n++] = (uint8_t)byte;
    }
    return LS_OK;
}

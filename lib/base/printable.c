#include "base/printable.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* How the bytes at the beginning of a text are shown. */
typedef struct piece {
    size_t length; /* bytes of the text */
    int escaped;   /* the byte that \xNN stands for; below 0: none */
} piece;

static piece piece_of(const uint8_t *at, size_t n)
{
    const int length = lsi_utf8_next(at, n);
    if (length <= 0)
        return (piece){1, at[0]};
    if (at[0] < 0x20 || at[0] == 0x7f)
        return (piece){1, at[0]};
    if (at[0] == 0xc2 && at[1] < 0xa0) /* U+0080 to U+009F */
        return (piece){2, at[1]};
    return (piece){(size_t)length, -1};
}

/* False: the text was cut. */
static bool write_pieces(char *out, size_t room, const char *text,
                         bool keeps_lines)
{
    enum { ESCAPE = 4 };
    const uint8_t *at = (const uint8_t *)text;
    size_t used = 0, left = strlen(text);
    while (left > 0) {
        const piece p =
            keeps_lines && *at == '\n' ? (piece){1, -1} : piece_of(at, left);
        const size_t shown = p.escaped < 0 ? p.length : ESCAPE;
        if (used + shown >= room)
            break;
        if (p.escaped < 0)
            memcpy(out + used, at, shown);
        else
            snprintf(out + used, ESCAPE + 1, "\\x%02x", (unsigned)p.escaped);
        used += shown;
        at += p.length;
        left -= p.length;
    }
    out[used] = '\0';
    return left == 0;
}

void lsi_printable(char *out, size_t room, const char *text)
{
    (void)write_pieces(out, room, text, false);
}

bool lsi_printable_lines(char *out, size_t room, const char *text)
{
    return write_pieces(out, room, text, true);
}

lsi_printable_name lsi_printable_of(const char *name)
{
    lsi_printable_name out;
    lsi_printable(out.text, sizeof(out.text), name);
    return out;
}

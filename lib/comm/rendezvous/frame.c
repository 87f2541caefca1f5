#include "comm/rendezvous/frame.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"

static const char magic[4] = {'L', 's', 'R', '1'};

static bool has_key(lsi_frame_kind kind)
{
    return kind == LSI_FRAME_SET || kind == LSI_FRAME_GET;
}

static ls_status check_key(const char *key, size_t bytes)
{
    if (bytes < 1 || bytes > LSI_STORE_KEY_BYTES)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "a store key has %zu bytes; it must have 1 to %d",
                        bytes, LSI_STORE_KEY_BYTES);
    for (size_t i = 0; i < bytes; i++) {
        if (key[i] <= ' ' || key[i] > '~')
            return lsi_fail(LS_ERR_ARGUMENT,
                            "byte %zu of a store key is %d; a key must consist "
                            "of printable ASCII characters without blanks",
                            i, (unsigned char)key[i]);
    }
    return LS_OK;
}

ls_status lsi_frame_check_key(const char *key)
{
    return check_key(key, strnlen(key, LSI_STORE_KEY_BYTES + 1));
}

static ls_status check_header(const unsigned char *from, size_t have)
{
    const size_t seen = have < sizeof(magic) ? have : sizeof(magic);
    const size_t name = sizeof(magic) - 1;
    if (memcmp(from, magic, seen < name ? seen : name) != 0)
        return lsi_fail(
            LS_ERR_FORMAT,
            "the received data does not follow Lockstep's protocol");
    if (seen == sizeof(magic) && from[name] != (unsigned char)magic[name])
        return lsi_fail(LS_ERR_MISMATCH,
                        "protocol mismatch: the other process uses protocol "
                        "version %c, this process uses version %c. Install the "
                        "same Lockstep version on all hosts",
                        from[name] > ' ' && from[name] < 127 ? from[name] : '?',
                        magic[name]);
    return LS_OK;
}

ls_status lsi_frame_read(const unsigned char *from, size_t have, size_t most,
                         lsi_frame *out, size_t *used, size_t *wanted)
{
    *used = 0;
    *wanted = LSI_FRAME_HEADER_BYTES;
    LS_TRY(check_header(from, have));
    if (have < LSI_FRAME_HEADER_BYTES)
        return LS_OK;
    const lsi_frame_kind kind = (lsi_frame_kind)from[4];
    const size_t key = from[6] | (size_t)from[7] << 8;
    const size_t bytes = from[8] | (size_t)from[9] << 8 |
                         (size_t)from[10] << 16 | (size_t)from[11] << 24;
    if (kind < LSI_FRAME_HELLO || kind >= LSI_FRAME_KINDS || from[5] != 0)
        return lsi_fail(LS_ERR_FORMAT, "received a frame of unknown kind %d",
                        from[4]);
    if (bytes > most || key > LSI_STORE_KEY_BYTES || (key > 0) != has_key(kind))
        return lsi_fail(LS_ERR_FORMAT,
                        "received a malformed frame: kind %d, a key of %zu "
                        "bytes, %zu bytes of data",
                        from[4], key, bytes);
    *wanted = LSI_FRAME_HEADER_BYTES + key + bytes;
    if (have < *wanted)
        return LS_OK;
    const unsigned char *const body = from + LSI_FRAME_HEADER_BYTES;
    memcpy(out->key, body, key);
    out->key[key] = '\0';
    if (key > 0 && check_key(out->key, key) != LS_OK)
        return LS_ERR_FORMAT;
    out->kind = kind;
    out->data = body + key;
    out->bytes = bytes;
    *used = *wanted;
    return LS_OK;
}

size_t lsi_frame_header(lsi_frame_kind kind, const char *key, size_t bytes,
                        unsigned char out[LSI_FRAME_HEADER_BYTES])
{
    const size_t length = strlen(key);
    memcpy(out, magic, sizeof(magic));
    out[4] = (unsigned char)kind;
    out[5] = 0;
    for (int i = 0; i < 2; i++)
        out[6 + i] = (unsigned char)(length >> 8 * i);
    for (int i = 0; i < 4; i++)
        out[8 + i] = (unsigned char)(bytes >> 8 * i);
    return LSI_FRAME_HEADER_BYTES + length + bytes;
}

void lsi_frame_refusal(const lsi_frame *frame,
                       char out[LSI_FRAME_REFUSAL_BYTES + 1])
{
    const size_t n = frame->bytes < LSI_FRAME_REFUSAL_BYTES
                         ? frame->bytes
                         : LSI_FRAME_REFUSAL_BYTES;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = frame->data[i];
        out[i] = (char)(c < ' ' || c == 127 ? '?' : c);
    }
    out[n] = '\0';
    if (n == 0)
        memcpy(out, "no reason was given", sizeof("no reason was given"));
}

void lsi_frame_put_number(unsigned char out[8], uint64_t number)
{
    for (int i = 0; i < 8; i++)
        out[i] = (unsigned char)(number >> 8 * i);
}

uint64_t lsi_frame_get_number(const unsigned char from[8])
{
    uint64_t number = 0;
    for (int i = 0; i < 8; i++)
        number |= (uint64_t)from[i] << 8 * i;
    return number;
}

#include "report/event_record.h"

#include <string.h>

#include "base/error.h"

static const char version[] = "brain.Event:2";

/* ---- checksums ----------------------------------------------------------- */

uint32_t lsi_crc32c(const void *data, size_t bytes)
{
    static const uint32_t polynomial = 0x82f63b78; /* reflected */
    static uint32_t table[256]; /* checksum of each byte value */
    const unsigned char *at = data;
    uint32_t crc = 0xffffffff;
    if (table[1] == 0) {
        for (uint32_t i = 256; i-- > 0;) {
            uint32_t c = i;
            for (int bit = 0; bit < 8; bit++)
                c = c & 1 ? c >> 1 ^ polynomial : c >> 1;
            table[i] = c;
        }
    }
    for (size_t i = 0; i < bytes; i++)
        crc = crc >> 8 ^ table[(crc ^ at[i]) & 0xff];
    return ~crc;
}

/*
 * Masks a checksum, so that checksums of bytes that contain checksums stay
 * good.
 */
static uint32_t masked(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

/* ---- writing ------------------------------------------------------------- */

/* Field numbers of the messages, with their wire types. */
enum {
    VARINT = 0,
    FIXED64 = 1,
    BYTES = 2,
    FIXED32 = 5,
    EVENT_WALL_TIME = 1 << 3 | FIXED64,
    EVENT_STEP = 2 << 3 | VARINT,
    EVENT_FILE_VERSION = 3 << 3 | BYTES,
    EVENT_SUMMARY = 5 << 3 | BYTES,
    EVENT_SESSION_LOG = 7 << 3 | BYTES,
    SUMMARY_VALUE = 1 << 3 | BYTES,
    VALUE_TAG = 1 << 3 | BYTES,
    VALUE_SIMPLE_VALUE = 2 << 3 | FIXED32,
    SESSION_LOG_STATUS = 1 << 3 | VARINT,
    SESSION_START = 1
};

enum { HEAD = LSI_EVENT_HEAD, TAIL = LSI_EVENT_TAIL };

static unsigned char *put_fixed(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *at++ = (unsigned char)(value >> 8 * i);
    return at;
}

static unsigned char *put_varint(unsigned char *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    *at++ = (unsigned char)value;
    return at;
}

static unsigned char *put_bytes(unsigned char *at, int key, const void *data,
                                size_t bytes)
{
    at = put_varint(at, (uint64_t)key);
    at = put_varint(at, bytes);
    memcpy(at, data, bytes);
    return at + bytes;
}

static unsigned char *put_event(unsigned char *at, double seconds, int64_t step)
{
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof(bits));
    at = put_varint(at, EVENT_WALL_TIME);
    at = put_fixed(at, bits, 8);
    at = put_varint(at, EVENT_STEP);
    return put_varint(at, (uint64_t)step);
}

size_t lsi_event_put_frame(unsigned char *out, size_t bytes)
{
    put_fixed(out, bytes, 8);
    put_fixed(out + 8, masked(lsi_crc32c(out, 8)), 4);
    put_fixed(out + HEAD + bytes, masked(lsi_crc32c(out + HEAD, bytes)), TAIL);
    return HEAD + bytes + TAIL;
}

static size_t close_record(unsigned char *out, const unsigned char *end)
{
    return lsi_event_put_frame(out, (size_t)(end - out) - HEAD);
}

size_t lsi_event_put_version(unsigned char *out, double seconds)
{
    unsigned char *at = put_event(out + HEAD, seconds, 0);
    at = put_bytes(at, EVENT_FILE_VERSION, version, strlen(version));
    return close_record(out, at);
}

size_t lsi_event_put_start(unsigned char *out, double seconds, int64_t step)
{
    const unsigned char log[] = {SESSION_LOG_STATUS, SESSION_START};
    unsigned char *at = put_event(out + HEAD, seconds, step);
    at = put_bytes(at, EVENT_SESSION_LOG, log, sizeof(log));
    return close_record(out, at);
}

enum { MOST_TAG = 100, MOST_VALUE = MOST_TAG + 16 };

static unsigned char *put_scalar(unsigned char *at, const lsi_scalar *scalar)
{
    unsigned char value[MOST_VALUE], *end = value;
    const float number = (float)scalar->value;
    const size_t length = strlen(scalar->tag);
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    end = put_bytes(end, VALUE_TAG, scalar->tag,
                    length < MOST_TAG ? length : MOST_TAG);
    end = put_varint(end, VALUE_SIMPLE_VALUE);
    end = put_fixed(end, bits, 4);
    return put_bytes(at, SUMMARY_VALUE, value, (size_t)(end - value));
}

size_t lsi_event_put_scalars(unsigned char *out, double seconds, int64_t step,
                             const lsi_scalar *scalars, size_t n)
{
    enum { ROOM = LSI_EVENT_MOST - 64 }; /* 64 bytes for the other fields */
    unsigned char summary[ROOM], *end = summary;
    for (size_t i = 0; i < n && end + MOST_VALUE + 4 <= summary + ROOM; i++)
        end = put_scalar(end, &scalars[i]);
    unsigned char *at = put_event(out + HEAD, seconds, step);
    at = put_bytes(at, EVENT_SUMMARY, summary, (size_t)(end - summary));
    return close_record(out, at);
}

/* ---- reading ------------------------------------------------------------- */

typedef struct reader {
    const unsigned char *at, *end;
} reader;

/* The fields of an event that we use. */
typedef struct event {
    int64_t step;
    bool has_version, has_summary;
} event;

static bool get_varint(reader *r, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (r->at == r->end)
            return false;
        const unsigned char byte = *r->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool skip(reader *r, uint64_t bytes)
{
    if (bytes > (uint64_t)(r->end - r->at))
        return false;
    r->at += bytes;
    return true;
}

/* Skips the value of a key; *value is that of a varint. */
static bool skip_value(reader *r, uint64_t key, uint64_t *value)
{
    switch (key & 7) {
    case VARINT:
        return get_varint(r, value);
    case FIXED64:
        return skip(r, 8);
    case BYTES:
        return get_varint(r, value) && skip(r, *value);
    case FIXED32:
        return skip(r, 4);
    default:
        return false;
    }
}

static bool parse_event(const unsigned char *data, size_t bytes, event *out)
{
    reader r = {data, data + bytes};
    *out = (event){0};
    while (r.at < r.end) {
        uint64_t key, value = 0;
        if (!get_varint(&r, &key) || !skip_value(&r, key, &value))
            return false;
        if (key == EVENT_STEP)
            out->step = (int64_t)value;
        out->has_version |= key == EVENT_FILE_VERSION;
        out->has_summary |= key == EVENT_SUMMARY;
    }
    return true;
}

static uint64_t get_fixed(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/* The next record; false at the end, or for a record in another format. */
static bool read_record(FILE *file, event *out, size_t *length)
{
    unsigned char head[HEAD], data[LSI_EVENT_MOST];
    if (fread(head, 1, HEAD, file) != HEAD ||
        get_fixed(head + 8, 4) != masked(lsi_crc32c(head, 8)))
        return false;
    const uint64_t bytes = get_fixed(head, 8);
    if (bytes > LSI_EVENT_MOST - HEAD - TAIL ||
        fread(data, 1, bytes + TAIL, file) != bytes + TAIL ||
        get_fixed(data + bytes, TAIL) != masked(lsi_crc32c(data, bytes)))
        return false;
    *length = HEAD + (size_t)bytes + TAIL;
    return parse_event(data, (size_t)bytes, out);
}

ls_status lsi_events_until(FILE *file, lsi_event_place *place, int64_t *bytes,
                           int64_t *scalars)
{
    event e;
    size_t length;
    if (!read_record(file, &e, &length) || !e.has_version)
        return lsi_fail(LS_ERR_FORMAT,
                        "the file is not a TensorBoard event file");
    *bytes = (int64_t)length;
    *scalars = 0;
    while (read_record(file, &e, &length)) {
        if (e.has_summary) {
            if (e.step > place->step ||
                (e.step == place->step && (place->passed || e.step == 0)))
                break;
            place->passed |= e.step == place->step;
            ++*scalars;
        }
        *bytes += (int64_t)length;
    }
    return LS_OK;
}

/*
 * Zip archives, for .npz (APPNOTE.TXT of PKWARE): a directory at the end has
 * the place of each file; files are stored or deflated. Zip64 where it is
 * needed.
 */
#define ZLIB_CONST
#include <inttypes.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "input/data/arrays.h"
#include "input/data/unpack.h"

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    ENTRY_BYTES = 46,
    LOCAL_BYTES = 30,
    COMMENT_MOST = 65535,
    STORED = 0,
    DEFLATED = 8,
    ENCRYPTED = 1,
    CRC_FOLLOWS = 8, /* flag: the local header has no CRC-32 */
    NAME_MOST = 256
};

static const uint32_t end_magic = 0x06054b50, end64_magic = 0x06064b50;
static const uint32_t locator_magic = 0x07064b50;
static const uint32_t entry_magic = 0x02014b50, local_magic = 0x04034b50;

typedef struct archive {
    const uint8_t *data;
    size_t bytes;
    const char *path;
    bool skip_checksums;
} archive;

typedef struct directory {
    uint64_t at, bytes, files;
} directory;

typedef struct entry {
    char name[NAME_MOST];
    unsigned method, flags;
    uint32_t crc; /* of the unpacked bytes */
    uint64_t packed, size, at;
} entry;

static uint64_t number(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

static ls_status damaged(const archive *a, const char *what)
{
    return lsi_fail(LS_ERR_FORMAT,
                    "the zip archive '%s' is damaged or cut off: %s", a->path,
                    what);
}

/* The last record of the archive; its comment extends to the end. */
static bool is_end(const archive *a, size_t at)
{
    return number(a->data + at, 4) == end_magic &&
           number(a->data + at + 20, 2) == a->bytes - END_BYTES - at;
}

static ls_status find_directory64(const archive *a, size_t end, directory *out)
{
    if (end < LOCATOR_BYTES ||
        number(a->data + end - LOCATOR_BYTES, 4) != locator_magic)
        return LS_OK; /* these are the numbers themselves */
    const uint64_t at = number(a->data + end - LOCATOR_BYTES + 8, 8);
    if (a->bytes < END64_BYTES || at > a->bytes - END64_BYTES ||
        number(a->data + at, 4) != end64_magic)
        return damaged(a, "its directory is not at the recorded offset");
    *out = (directory){.files = number(a->data + at + 32, 8),
                       .bytes = number(a->data + at + 40, 8),
                       .at = number(a->data + at + 48, 8)};
    return LS_OK;
}

static ls_status find_directory(const archive *a, directory *out)
{
    if (a->bytes < END_BYTES)
        return damaged(a, "it is too short");
    size_t end = a->bytes - END_BYTES;
    const size_t least = end > COMMENT_MOST ? end - COMMENT_MOST : 0;
    while (end > least && !is_end(a, end))
        end--;
    if (!is_end(a, end))
        return damaged(a, "its directory was not found, or other bytes follow "
                          "the end of the archive");
    *out = (directory){.files = number(a->data + end + 10, 2),
                       .bytes = number(a->data + end + 12, 4),
                       .at = number(a->data + end + 16, 4)};
    if (out->files != 0xffff && out->bytes != 0xffffffff &&
        out->at != 0xffffffff)
        return LS_OK;
    return find_directory64(a, end, out);
}

/* Numbers that did not fit are in an extra field, in this order. */
static void read_zip64(entry *e, const uint8_t *extra, size_t bytes)
{
    while (bytes >= 4) {
        const size_t n = number(extra + 2, 2);
        if (n > bytes - 4)
            return;
        if (number(extra, 2) == 1) {
            uint64_t *const values[] = {&e->size, &e->packed, &e->at};
            const uint8_t *at = extra + 4;
            for (int i = 0; i < 3; i++) {
                if (*values[i] != 0xffffffff)
                    continue;
                if (at + 8 > extra + 4 + n)
                    return;
                *values[i] = number(at, 8);
                at += 8;
            }
            return;
        }
        extra += 4 + n;
        bytes -= 4 + n;
    }
}

/* The entry at *at, which then is where the next begins. */
static ls_status read_entry(const archive *a, uint64_t *at, entry *e)
{
    if (a->bytes < ENTRY_BYTES || *at > a->bytes - ENTRY_BYTES ||
        number(a->data + *at, 4) != entry_magic)
        return damaged(a, "its directory has fewer entries than recorded");
    const uint8_t *const p = a->data + *at;
    const size_t name = number(p + 28, 2), extra = number(p + 30, 2);
    const size_t all = ENTRY_BYTES + name + extra + number(p + 32, 2);
    if (all > a->bytes - *at)
        return damaged(a, "its directory ends within an entry");
    if (name >= NAME_MOST)
        return damaged(a, "the name of a file is too long");
    *e = (entry){.flags = (unsigned)number(p + 8, 2),
                 .method = (unsigned)number(p + 10, 2),
                 .crc = (uint32_t)number(p + 16, 4),
                 .packed = number(p + 20, 4),
                 .size = number(p + 24, 4),
                 .at = number(p + 42, 4)};
    memcpy(e->name, p + ENTRY_BYTES, name);
    e->name[name] = '\0';
    read_zip64(e, p + ENTRY_BYTES + name, extra);
    *at += all;
    return LS_OK;
}

static ls_status wrong_crc(const archive *a, const entry *e, uint32_t crc,
                           const char *whose)
{
    return lsi_fail(
        LS_ERR_FORMAT,
        "'%s' in the zip archive '%s' is damaged: its CRC-32 is %08" PRIx32
        " according to the directory, but %08" PRIx32
        " according to %s. Copy the archive again. To skip this check, use "
        "--no-verify-data (in C: skip_checksums)",
        e->name, a->path, e->crc, crc, whose);
}

/* Both headers of a file must agree. */
static ls_status check_local(const archive *a, const entry *e)
{
    const uint8_t *const p = a->data + e->at;
    const size_t name = strlen(e->name);
    const uint32_t crc = (uint32_t)number(p + 14, 4);
    if (number(p + 26, 2) != name || a->bytes - e->at - LOCAL_BYTES < name ||
        memcmp(p + LOCAL_BYTES, e->name, name) != 0)
        return damaged(
            a, "a file has different names in its header and in the directory");
    if (a->skip_checksums || crc == e->crc ||
        (crc == 0 && (number(p + 6, 2) & CRC_FOLLOWS) != 0))
        return LS_OK;
    return wrong_crc(a, e, crc, "the header of the file");
}

/* The bytes of a file, as the archive stores them. */
static ls_status find_bytes(const archive *a, const entry *e,
                            const uint8_t **out)
{
    if (a->bytes < LOCAL_BYTES || e->at > a->bytes - LOCAL_BYTES ||
        number(a->data + e->at, 4) != local_magic)
        return damaged(a,
                       "a file is not at the offset that the directory gives");
    LS_TRY(check_local(a, e));
    const uint64_t begin = e->at + LOCAL_BYTES +
                           number(a->data + e->at + 26, 2) +
                           number(a->data + e->at + 28, 2);
    if (begin > a->bytes || e->packed > a->bytes - begin)
        return damaged(a, "a file extends past the end of the archive");
    *out = a->data + begin;
    return LS_OK;
}

/* Reads all of it once, ahead of the CPU where it is mapped. */
static ls_status check_bytes(const archive *a, const entry *e,
                             const uint8_t *data)
{
    enum { STEP = 1 << 24 };
    uLong crc = 0; /* of no bytes */
    lsi_records_expect(data, e->size < STEP ? (size_t)e->size : STEP);
    for (uint64_t at = 0; at < e->size; at += STEP) {
        const uint64_t left = e->size - at;
        const size_t n = left < STEP ? (size_t)left : STEP;
        if (left > n)
            lsi_records_expect(data + at + n,
                               left - n < STEP ? (size_t)(left - n) : STEP);
        crc = crc32_z(crc, data + at, n);
    }
    return crc == e->crc ? LS_OK
                         : wrong_crc(a, e, (uint32_t)crc, "its contents");
}

static void release_nothing(uint8_t *data, size_t bytes)
{
    (void)data, (void)bytes;
}

/* Deflate makes at most 1,032 bytes of one: larger sizes are false. */
static ls_status inflate_file(const archive *a, const entry *e,
                              const uint8_t *from, lsi_records *out)
{
    z_stream z = {0};
    if (e->size / 1032 > e->packed + 1)
        return damaged(a, "a file is smaller than the directory gives");
    LS_TRY(lsi_records_alloc(out, (size_t)e->size));
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK) {
        lsi_records_release(out);
        return lsi_unpack_no_memory(a->path);
    }
    uint64_t given = 0, done = 0;
    int result = Z_OK;
    while (result == Z_OK) {
        const uint64_t left = e->packed - given, room = e->size - done;
        const uInt in = (uInt)(left < 1U << 30 ? left : 1U << 30);
        const uInt space = (uInt)(room < 1U << 30 ? room : 1U << 30);
        z.next_in = from + given;
        z.avail_in = in;
        z.next_out = out->data + done;
        z.avail_out = space;
        result = inflate(&z, Z_NO_FLUSH);
        given += in - z.avail_in;
        done += space - z.avail_out;
        if (result == Z_OK && in == z.avail_in && space == z.avail_out)
            break;
    }
    inflateEnd(&z);
    if (result == Z_STREAM_END && done == e->size)
        return LS_OK;
    lsi_records_release(out);
    return damaged(a, "a file cannot be unpacked");
}

static ls_status unpack_file(const archive *a, const entry *e, lsi_records *out)
{
    const uint8_t *from = NULL;
    LS_TRY(find_bytes(a, e, &from));
    if ((e->flags & ENCRYPTED) != 0)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "'%s' in '%s' is encrypted, which is not supported",
                        e->name, a->path);
    if (e->method == DEFLATED)
        return inflate_file(a, e, from, out);
    if (e->method != STORED)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "'%s' in '%s' is packed by method %u; only stored and "
                        "deflated files are supported",
                        e->name, a->path, e->method);
    if (e->size != e->packed)
        return damaged(a,
                       "a stored file has different packed and unpacked sizes");
    union {
        const uint8_t *constant;
        uint8_t *data; /* which nobody writes to */
    } view = {from};
    *out = (lsi_records){view.data, (size_t)e->size, release_nothing};
    return LS_OK;
}

static ls_status read_file(const archive *a, const entry *e, lsi_records *out)
{
    LS_TRY(unpack_file(a, e, out));
    if (a->skip_checksums)
        return LS_OK;
    const ls_status status = check_bytes(a, e, out->data);
    if (status != LS_OK)
        lsi_records_release(out);
    return status;
}

ls_status lsi_zip_read(const lsi_records *records, const char *path,
                       bool skip_checksums, lsi_zip_file_fn fn, void *context)
{
    const archive a = {records->data, records->bytes, path, skip_checksums};
    directory all = {0};
    LS_TRY(find_directory(&a, &all));
    uint64_t at = all.at;
    for (uint64_t i = 0; i < all.files; i++) {
        entry e;
        lsi_records file;
        LS_TRY(read_entry(&a, &at, &e));
        if (e.size == 0 && e.name[0] != '\0' &&
            e.name[strlen(e.name) - 1] == '/')
            continue; /* a folder */
        LS_TRY(read_file(&a, &e, &file));
        LS_TRY(fn(context, e.name, &file));
    }
    if (at - all.at != all.bytes)
        return damaged(&a, "its directory does not have the recorded size");
    return LS_OK;
}

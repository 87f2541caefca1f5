#include "data/load.h"

#include <string.h>
#include <zlib.h>

#include "base/error.h"

/* ---- room ---------------------------------------------------------------- */

ls_status lsi_records_grow(lsi_records *records, size_t used)
{
    enum { LEAST = 1 << 16 };
    const size_t bytes = records->bytes < LEAST ? LEAST : 2 * records->bytes;
    lsi_records larger;
    LS_TRY(lsi_records_alloc(&larger, bytes));
    if (records->data != NULL) {
        memcpy(larger.data, records->data, used);
        records->release(records->data, records->bytes);
    }
    *records = larger;
    return LS_OK;
}

/* ---- gzip ---------------------------------------------------------------- */

static ls_status damaged(const z_stream *z, const char *path, size_t done)
{
    return lsi_fail(LS_ERR_FORMAT,
                    "the gzip file '%s' is damaged or cut off after %zu "
                    "unpacked bytes: %s",
                    path, done, z->msg != NULL ? z->msg : "it ends too early");
}

typedef struct progress {
    size_t read, written;
    bool ended; /* all members */
} progress;

static uInt at_most(size_t bytes)
{
    return (uInt)(bytes < 1U << 30 ? bytes : 1U << 30);
}

static ls_status inflate_some(z_stream *z, const lsi_records *packed,
                              lsi_records *out, progress *p, const char *path)
{
    const uInt in = at_most(packed->bytes - p->read);
    const uInt room = at_most(out->bytes - p->written);
    z->next_in = packed->data + p->read;
    z->avail_in = in;
    z->next_out = out->data + p->written;
    z->avail_out = room;
    const int result = inflate(z, Z_NO_FLUSH);
    p->read += in - z->avail_in;
    p->written += room - z->avail_out;
    if (result == Z_STREAM_END) {
        /* Members may follow each other; zeros may fill the file up. */
        p->ended = p->read == packed->bytes || packed->data[p->read] != 0x1f;
        if (p->ended || inflateReset(z) == Z_OK)
            return LS_OK;
    } else if (result == Z_OK && (in > z->avail_in || room > z->avail_out)) {
        return LS_OK;
    }
    return damaged(z, path, p->written);
}

static ls_status inflate_all(z_stream *z, lsi_records *out,
                             const lsi_records *packed, const char *path,
                             size_t most)
{
    progress p = {0};
    while (!p.ended && p.written < most) {
        if (p.written == out->bytes)
            LS_TRY(lsi_records_grow(out, p.written));
        LS_TRY(inflate_some(z, packed, out, &p, path));
    }
    out->bytes = p.written;
    return LS_OK;
}

ls_status lsi_unpack_gzip(lsi_records *out, const lsi_records *packed,
                          const char *path, size_t most)
{
    enum { GZIP_ALONE = 16 + MAX_WBITS };
    z_stream z = {0};
    lsi_records records = {0};
    if (inflateInit2(&z, GZIP_ALONE) != Z_OK)
        return lsi_fail(LS_ERR_MEMORY, "no memory to unpack '%s'", path);
    const ls_status status = inflate_all(&z, &records, packed, path, most);
    inflateEnd(&z);
    if (status == LS_OK)
        *out = records;
    else if (records.data != NULL)
        records.release(records.data, records.bytes);
    return status;
}

/* ---- files --------------------------------------------------------------- */

/* Takes the file over. */
static ls_status unpack(lsi_records *out, lsi_records *file, const char *path,
                        size_t most)
{
    const lsi_magic magic = lsi_magic_of(file->data, file->bytes);
    if (!lsi_magic_is_packed(magic)) {
        *out = *file;
        return LS_OK;
    }
    lsi_records made = {0};
    ls_status status = magic == LSI_MAGIC_GZIP
                           ? lsi_unpack_gzip(&made, file, path, most)
                           : lsi_unpack_archive(&made, file, path, most);
    file->release(file->data, file->bytes);
    if (status == LS_OK && made.bytes == 0) {
        if (made.data != NULL)
            made.release(made.data, made.bytes);
        status = lsi_fail(LS_ERR_FORMAT, "'%s' holds nothing", path);
    }
    if (status == LS_OK)
        *out = made;
    return status;
}

ls_status lsi_records_load(lsi_records *out, const char *path)
{
    lsi_records file;
    LS_TRY(lsi_records_map(&file, path));
    return unpack(out, &file, path, SIZE_MAX);
}

ls_status lsi_magic_inside(const char *path, lsi_magic *out)
{
    lsi_records file, head;
    LS_TRY(lsi_magic_of_file(path, out));
    if (!lsi_magic_is_packed(*out))
        return LS_OK;
    LS_TRY(lsi_records_map(&file, path));
    LS_TRY(unpack(&head, &file, path, LSI_MAGIC_BYTES));
    *out = lsi_magic_of(head.data, head.bytes);
    head.release(head.data, head.bytes);
    return LS_OK;
}

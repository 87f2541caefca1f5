#include "input/data/unpack.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"

/* ---- streams ------------------------------------------------------------- */

ls_status lsi_unpack_no_memory(const char *path)
{
    return lsi_fail(LS_ERR_MEMORY, "not enough memory to unpack '%s'", path);
}

ls_status lsi_unpacker_open(lsi_unpacker *out, const lsi_records *packed,
                            const char *path)
{
    lsi_unpacker made = {.packed = packed, .path = path};
    if (lsi_magic_of(packed->data, packed->bytes) == LSI_MAGIC_GZIP)
        LS_TRY(lsi_gzip_open(&made));
    else
        LS_TRY(lsi_archive_open(&made));
    *out = made;
    return LS_OK;
}

ls_status lsi_unpacker_read(lsi_unpacker *u, uint8_t *to, size_t room,
                            size_t *got)
{
    size_t done = 0;
    while (done < room && !u->ended) {
        size_t some = 0;
        LS_TRY(u->read(u, to + done, room - done, &some));
        u->done += some;
        done += some;
    }
    *got = done;
    return LS_OK;
}

void lsi_unpacker_close(lsi_unpacker *u)
{
    u->free(u->state);
    *u = (lsi_unpacker){0};
}

ls_status lsi_unpacker_check_rest(const lsi_unpacker *u, size_t at)
{
    for (size_t i = at; i < u->packed->bytes; i++) {
        if (u->packed->data[i] != 0)
            return lsi_fail(LS_ERR_FORMAT,
                            "'%s' is damaged at byte %zu of %zu: the "
                            "compressed data ends at byte %zu, and only zeros "
                            "or more compressed data may follow",
                            u->path, i, u->packed->bytes, at);
    }
    return LS_OK;
}

/* ---- room ---------------------------------------------------------------- */

/* More room for unpacked bytes; keeps the first `used` ones. */
static ls_status grow(lsi_records *records, size_t used)
{
    enum { LEAST = 1 << 16 };
    const size_t bytes = records->bytes < LEAST ? LEAST : 2 * records->bytes;
    lsi_records larger;
    LS_TRY(lsi_records_alloc(&larger, bytes));
    if (used > 0)
        memcpy(larger.data, records->data, used);
    lsi_records_release(records);
    *records = larger;
    return LS_OK;
}

/* ---- packed files -------------------------------------------------------- */

static ls_status read_most(lsi_unpacker *u, size_t most, lsi_records *out)
{
    size_t done = 0;
    while (done < most && !u->ended) {
        size_t got = 0;
        if (done == out->bytes)
            LS_TRY(grow(out, done));
        const size_t room = out->bytes - done;
        LS_TRY(lsi_unpacker_read(u, out->data + done,
                                 room < most - done ? room : most - done,
                                 &got));
        done += got;
    }
    out->bytes = done;
    return LS_OK;
}

/* At most the first `most` of the packed bytes. */
static ls_status unpack_most(lsi_records *out, const lsi_records *packed,
                             const char *path, size_t most)
{
    lsi_unpacker u;
    lsi_records made = {0};
    LS_TRY(lsi_unpacker_open(&u, packed, path));
    const ls_status status = read_most(&u, most, &made);
    lsi_unpacker_close(&u);
    if (status == LS_OK)
        *out = made;
    else
        lsi_records_release(&made);
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
    ls_status status = unpack_most(&made, file, path, most);
    lsi_records_release(file);
    if (status == LS_OK && made.bytes == 0) {
        lsi_records_release(&made);
        status = lsi_fail(LS_ERR_FORMAT, "'%s' is empty after unpacking", path);
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

ls_status lsi_unpack_magic(const char *path, lsi_magic *out)
{
    lsi_records file, head;
    LS_TRY(lsi_magic_of_file(path, out));
    if (!lsi_magic_is_packed(*out))
        return LS_OK;
    LS_TRY(lsi_records_map(&file, path));
    LS_TRY(unpack(&head, &file, path, LSI_MAGIC_BYTES));
    *out = lsi_magic_of(head.data, head.bytes);
    lsi_records_release(&head);
    return LS_OK;
}

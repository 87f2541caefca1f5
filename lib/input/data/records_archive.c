/* Members of tar archives, and packed files, read into memory by libarchive. */
#include <archive.h>
#include <archive_entry.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/magic.h"
#include "base/memory.h"
#include "input/data/dataset.h"
#include "input/data/unpack.h"

/* Large enough that decompression does not wait for reads. */
enum { READ_BLOCK = 1 << 17 };

/* ---- tar ----------------------------------------------------------------- */

typedef struct tar {
    const char *path;
    const char *const *members; /* file names */
    int n;
    lsi_records *records; /* (n) contents of the members */
    lsi_records file;     /* the archive, mapped */
    lsi_unpacker stream;  /* of a packed archive */
    uint8_t *block;       /* (READ_BLOCK) of a packed archive, or NULL */
    ls_status unpacked;   /* status of the stream; its error is the last one */
    struct archive *archive;
} tar;

/* libarchive compares no checksums of gzip files: it never sees them. */
static la_ssize_t read_block(struct archive *archive, void *context,
                             const void **out)
{
    tar *const t = context;
    size_t got = 0;
    t->unpacked = lsi_unpacker_read(&t->stream, t->block, READ_BLOCK, &got);
    *out = t->block;
    if (t->unpacked == LS_OK)
        return (la_ssize_t)got;
    archive_set_error(archive, -1, "it cannot be unpacked");
    return ARCHIVE_FATAL;
}

static ls_status open_stream(tar *t)
{
    void *block = NULL;
    LS_TRY(lsi_unpacker_open(&t->stream, &t->file, t->path));
    const ls_status status =
        lsi_alloc(&block, READ_BLOCK, LS_MEMORY_DATA, "a block of an archive");
    if (status != LS_OK)
        lsi_unpacker_close(&t->stream);
    t->block = block;
    return status;
}

static ls_status open_tar(tar *t)
{
    const lsi_magic magic = lsi_magic_of(t->file.data, t->file.bytes);
    if (lsi_magic_is_packed(magic))
        LS_TRY(open_stream(t));
    t->archive = archive_read_new();
    if (t->archive == NULL)
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory to read the archive '%s'", t->path);
    archive_read_support_format_tar(t->archive);
    archive_read_support_format_empty(t->archive);
    const int opened =
        t->block != NULL
            ? archive_read_open(t->archive, t, NULL, read_block, NULL)
            : archive_read_open_memory(t->archive, t->file.data, t->file.bytes);
    if (opened == ARCHIVE_OK || t->unpacked != LS_OK)
        return t->unpacked;
    return lsi_fail(
        LS_ERR_FORMAT,
        "'%s' is neither a folder nor a .tar, .tar.gz, .tar.zst, .tar.xz or "
        ".tar.bz2 archive (%s). Expected a folder or archive that holds %s",
        t->path, archive_error_string(t->archive), t->members[0]);
}

/* Where the contents belong if it is one of the members, else NULL. */
static lsi_records *records_of(const tar *t, struct archive_entry *entry)
{
    const char *path = archive_entry_pathname(entry);
    if (path == NULL || archive_entry_filetype(entry) != AE_IFREG)
        return NULL;
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    for (int i = 0; i < t->n; i++) {
        if (strcmp(name, t->members[i]) == 0 && t->records[i].data == NULL)
            return &t->records[i];
    }
    return NULL;
}

static ls_status read_contents(tar *t, const char *member, lsi_records *records)
{
    size_t done = 0;
    while (done < records->bytes) {
        const la_ssize_t n = archive_read_data(t->archive, records->data + done,
                                               records->bytes - done);
        if (t->unpacked != LS_OK)
            return t->unpacked;
        if (n < 0)
            return lsi_fail(LS_ERR_FORMAT,
                            "%s in the archive '%s' is damaged after %zu of "
                            "%zu bytes: %s",
                            member, t->path, done, records->bytes,
                            archive_error_string(t->archive));
        if (n == 0)
            return lsi_fail(LS_ERR_FORMAT,
                            "%s in the archive '%s' ends after %zu of %zu "
                            "bytes",
                            member, t->path, done, records->bytes);
        done += (size_t)n;
    }
    return LS_OK;
}

/* Reads all headers, also those after the last member that is wanted. */
static ls_status read_members(tar *t)
{
    for (int seen = 0;; seen++) {
        struct archive_entry *entry = NULL;
        const int result = archive_read_next_header(t->archive, &entry);
        if (t->unpacked != LS_OK)
            return t->unpacked;
        if (result == ARCHIVE_EOF)
            break;
        if (result < ARCHIVE_WARN)
            return lsi_fail(LS_ERR_FORMAT,
                            "the archive '%s' is damaged after %d members: %s",
                            t->path, seen, archive_error_string(t->archive));
        lsi_records *const records = records_of(t, entry);
        if (records == NULL)
            continue;
        LS_TRY(lsi_records_alloc(records, (size_t)archive_entry_size(entry)));
        LS_TRY(read_contents(t, t->members[records - t->records], records));
    }
    return LS_OK;
}

static ls_status check_members(const tar *t)
{
    for (int i = 0; i < t->n; i++) {
        if (t->records[i].data == NULL)
            return lsi_fail(LS_ERR_FORMAT,
                            "the archive '%s' does not hold the file %s "
                            "(members: %d)",
                            t->path, t->members[i],
                            archive_file_count(t->archive));
    }
    return LS_OK;
}

/* The checksums also cover the bytes after the end of the archive. */
static ls_status read_rest(tar *t)
{
    size_t got = READ_BLOCK;
    while (t->block != NULL && got == READ_BLOCK)
        LS_TRY(lsi_unpacker_read(&t->stream, t->block, READ_BLOCK, &got));
    return LS_OK;
}

static ls_status read_tar(tar *t)
{
    LS_TRY(open_tar(t));
    LS_TRY(read_members(t));
    LS_TRY(read_rest(t));
    return check_members(t);
}

ls_status lsi_records_read_archive(lsi_records *out, const char *path,
                                   const char *const *members, int n)
{
    tar t = {.path = path, .members = members, .n = n, .records = out};
    memset(out, 0, (size_t)n * sizeof *out);
    LS_TRY(lsi_records_map(&t.file, path));
    const ls_status status = read_tar(&t);
    archive_read_free(t.archive);
    if (t.block != NULL)
        lsi_unpacker_close(&t.stream);
    lsi_free(t.block);
    lsi_records_release(&t.file);
    for (int i = 0; i < n && status != LS_OK; i++)
        lsi_records_release(&out[i]);
    return status;
}

/* ---- packed files -------------------------------------------------------- */

static ls_status cannot_unpack(const lsi_unpacker *u)
{
    struct archive *const archive = u->state;
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is damaged or cut off at or before byte %" PRId64
                    " of %zu (%" PRIu64 " bytes unpacked so far): %s",
                    u->path, (int64_t)archive_filter_bytes(archive, -1),
                    u->packed->bytes, u->done, archive_error_string(archive));
}

static ls_status end_stream(lsi_unpacker *u)
{
    LS_TRY(
        lsi_unpacker_check_rest(u, (size_t)archive_filter_bytes(u->state, -1)));
    u->ended = true;
    return LS_OK;
}

static ls_status unpack_some(lsi_unpacker *u, uint8_t *to, size_t room,
                             size_t *got)
{
    const la_ssize_t n = archive_read_data(u->state, to, room);
    if (n < 0)
        return cannot_unpack(u);
    *got = (size_t)n;
    return n > 0 ? LS_OK : end_stream(u);
}

/* Only one filter: files packed twice are unpacked once. */
static ls_status begin_stream(lsi_unpacker *u)
{
    const lsi_magic magic = lsi_magic_of(u->packed->data, u->packed->bytes);
    const int filter = magic == LSI_MAGIC_ZSTD ? ARCHIVE_FILTER_ZSTD
                       : magic == LSI_MAGIC_XZ ? ARCHIVE_FILTER_XZ
                                               : ARCHIVE_FILTER_BZIP2;
    struct archive_entry *entry;
    archive_read_support_format_raw(u->state);
    if (archive_read_append_filter(u->state, filter) < ARCHIVE_WARN ||
        archive_read_open_memory(u->state, u->packed->data, u->packed->bytes) !=
            ARCHIVE_OK)
        return cannot_unpack(u);
    if (archive_read_next_header(u->state, &entry) < ARCHIVE_WARN)
        return cannot_unpack(u);
    return LS_OK;
}

static void free_stream(void *state)
{
    archive_read_free(state);
}

ls_status lsi_archive_open(lsi_unpacker *out)
{
    out->state = archive_read_new();
    if (out->state == NULL)
        return lsi_unpack_no_memory(out->path);
    out->read = unpack_some;
    out->free = free_stream;
    const ls_status status = begin_stream(out);
    if (status != LS_OK)
        free_stream(out->state);
    return status;
}

/* Members of tar archives, and packed files, read into memory by libarchive. */
#include <archive.h>
#include <archive_entry.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "data/dataset.h"
#include "data/magic.h"
#include "data/unpack.h"

/* Large enough that a read is not what decompression waits for. */
enum { READ_BLOCK = 1 << 17 };

static ls_status open_archive(struct archive *archive, int fd, const char *path,
                              const char *member)
{
    archive_read_support_format_tar(archive);
    archive_read_support_format_empty(archive);
    archive_read_support_filter_gzip(archive);
    archive_read_support_filter_zstd(archive);
    if (archive_read_open_fd(archive, fd, READ_BLOCK) != ARCHIVE_OK)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' is neither a folder nor a .tar, .tar.gz or "
                        ".tar.zst archive (%s); expected one of them, holding "
                        "%s",
                        path, archive_error_string(archive), member);
    return LS_OK;
}

static bool is_member(struct archive_entry *entry, const char *member)
{
    const char *path = archive_entry_pathname(entry);
    if (path == NULL || archive_entry_filetype(entry) != AE_IFREG)
        return false;
    const char *slash = strrchr(path, '/');
    return strcmp(slash == NULL ? path : slash + 1, member) == 0;
}

/* Moves to the member; *size is what its header says. */
static ls_status find_member(struct archive *archive, const char *path,
                             const char *member, size_t *size)
{
    for (int seen = 0;; seen++) {
        struct archive_entry *entry = NULL;
        const int result = archive_read_next_header(archive, &entry);
        if (result == ARCHIVE_EOF)
            return lsi_fail(LS_ERR_FORMAT,
                            "the archive '%s' has no file %s (members: %d)",
                            path, member, seen);
        if (result < ARCHIVE_WARN)
            return lsi_fail(LS_ERR_FORMAT,
                            "the archive '%s' is damaged before %s: %s", path,
                            member, archive_error_string(archive));
        if (is_member(entry, member)) {
            *size = (size_t)archive_entry_size(entry);
            return LS_OK;
        }
    }
}

static ls_status read_member(struct archive *archive, const char *path,
                             const char *member, lsi_records *records)
{
    size_t done = 0;
    while (done < records->bytes) {
        const la_ssize_t n = archive_read_data(archive, records->data + done,
                                               records->bytes - done);
        if (n < 0)
            return lsi_fail(LS_ERR_FORMAT,
                            "%s in the archive '%s' is damaged after %zu of "
                            "%zu bytes: %s",
                            member, path, done, records->bytes,
                            archive_error_string(archive));
        if (n == 0)
            return lsi_fail(LS_ERR_FORMAT,
                            "%s in the archive '%s' ends after %zu of %zu "
                            "bytes",
                            member, path, done, records->bytes);
        done += (size_t)n;
    }
    return LS_OK;
}

static ls_status load(struct archive *archive, int fd, const char *path,
                      const char *member, lsi_records *out)
{
    size_t size = 0;
    LS_TRY(open_archive(archive, fd, path, member));
    LS_TRY(find_member(archive, path, member, &size));
    lsi_records records;
    LS_TRY(lsi_records_alloc(&records, size));
    const ls_status status = read_member(archive, path, member, &records);
    if (status != LS_OK) {
        records.release(records.data, records.bytes);
        return status;
    }
    *out = records;
    return LS_OK;
}

ls_status lsi_records_read_archive(lsi_records *out, const char *path,
                                   const char *member)
{
    int fd;
    uint64_t bytes;
    LS_TRY(lsi_open_regular(path, 0, &fd, &bytes));
    struct archive *archive = archive_read_new();
    ls_status status = LS_ERR_MEMORY;
    if (archive == NULL)
        lsi_fail(status, "no memory to read the archive '%s'", path);
    else
        status = load(archive, fd, path, member, out);
    archive_read_free(archive);
    close(fd);
    return status;
}

/* ---- packed files -------------------------------------------------------- */

static ls_status cannot_unpack(const lsi_unpacker *u)
{
    struct archive *const archive = u->state;
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is damaged or cut off at or before byte %" PRId64
                    " of %zu, after %" PRIu64 " unpacked bytes: %s",
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

/* Only one filter: what is packed twice is unpacked once. */
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
        return lsi_fail(LS_ERR_MEMORY, "no memory to unpack '%s'", out->path);
    out->read = unpack_some;
    out->free = free_stream;
    const ls_status status = begin_stream(out);
    if (status != LS_OK)
        free_stream(out->state);
    return status;
}

/* Members of tar archives, and packed files, read into memory by libarchive. */
#include <archive.h>
#include <archive_entry.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "data/dataset.h"
#include "data/load.h"

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

static ls_status cannot_unpack(struct archive *archive, const char *path)
{
    return lsi_fail(LS_ERR_FORMAT, "'%s' is damaged or cut off: %s", path,
                    archive_error_string(archive));
}

static ls_status read_some(struct archive *archive, const char *path,
                           size_t most, lsi_records *records)
{
    size_t done = 0;
    while (done < most) {
        if (done == records->bytes)
            LS_TRY(lsi_records_grow(records, done));
        const la_ssize_t n = archive_read_data(archive, records->data + done,
                                               records->bytes - done);
        if (n < 0)
            return cannot_unpack(archive, path);
        if (n == 0)
            break;
        done += (size_t)n;
    }
    records->bytes = done;
    return LS_OK;
}

static ls_status unpack_with(struct archive *archive, lsi_records *out,
                             const lsi_records *packed, const char *path,
                             size_t most)
{
    struct archive_entry *entry;
    archive_read_support_format_raw(archive);
    archive_read_support_filter_all(archive);
    if (archive_read_open_memory(archive, packed->data, packed->bytes) !=
            ARCHIVE_OK ||
        archive_read_next_header(archive, &entry) < ARCHIVE_WARN)
        return cannot_unpack(archive, path);
    return read_some(archive, path, most, out);
}

ls_status lsi_unpack_archive(lsi_records *out, const lsi_records *packed,
                             const char *path, size_t most)
{
    lsi_records records = {0};
    struct archive *archive = archive_read_new();
    if (archive == NULL)
        return lsi_fail(LS_ERR_MEMORY, "no memory to unpack '%s'", path);
    const ls_status status = unpack_with(archive, &records, packed, path, most);
    archive_read_free(archive);
    if (status == LS_OK)
        *out = records;
    else if (records.data != NULL)
        records.release(records.data, records.bytes);
    return status;
}

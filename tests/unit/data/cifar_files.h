/*
 * Small files in the layout of CIFAR-100, in a separate folder that is
 * removed at the end.
 */
#ifndef TESTS_DATA_CIFAR_FILES_H
#define TESTS_DATA_CIFAR_FILES_H

/* cmocka.h wants these first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <archive.h>
#include <archive_entry.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "input/data/dataset.h"

static char folder[64];

/* A path in the test's folder; valid until the fourth call after. */
static inline const char *in_folder(const char *name)
{
    static char paths[4][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return path;
}

static inline int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lockstep-test-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static inline int remove_one(const char *path, const struct stat *info,
                             int flag, struct FTW *ftw)
{
    (void)info, (void)flag, (void)ftw;
    return remove(path);
}

static inline int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Byte i of record r; labels are valid, pixels take all values. */
static inline uint8_t record_byte(size_t r, size_t i)
{
    if (i == LSI_RECORD_COARSE)
        return (uint8_t)(r % LSI_COARSE_CLASSES);
    if (i == LSI_RECORD_FINE)
        return (uint8_t)(r * 7 % LSI_FINE_CLASSES);
    return (uint8_t)(r * 31 + i * 13 + i / 256);
}

/* *bytes of records, for the caller to free. */
static inline uint8_t *make_records(size_t count, size_t *bytes)
{
    *bytes = count * LSI_RECORD_BYTES;
    uint8_t *data = malloc(*bytes + 1);
    assert_non_null(data);
    for (size_t i = 0; i < *bytes; i++)
        data[i] = record_byte(i / LSI_RECORD_BYTES, i % LSI_RECORD_BYTES);
    return data;
}

static inline void write_file(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static inline void write_records(const char *path, size_t count)
{
    size_t bytes;
    uint8_t *data = make_records(count, &bytes);
    write_file(path, data, bytes);
    free(data);
}

/* filter: ARCHIVE_FILTER_NONE, _GZIP or _ZSTD. */
static inline struct archive *begin_archive(const char *path, int filter)
{
    struct archive *archive = archive_write_new();
    assert_non_null(archive);
    assert_int_equal(archive_write_add_filter(archive, filter), ARCHIVE_OK);
    assert_int_equal(archive_write_set_format_ustar(archive), ARCHIVE_OK);
    assert_int_equal(archive_write_open_filename(archive, path), ARCHIVE_OK);
    return archive;
}

static inline void add_member(struct archive *archive, const char *name,
                              const void *data, size_t bytes)
{
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, name);
    archive_entry_set_size(entry, (la_int64_t)bytes);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
    assert_int_equal(archive_write_data(archive, data, bytes), bytes);
    archive_entry_free(entry);
}

static inline void end_archive(struct archive *archive)
{
    assert_int_equal(archive_write_close(archive), ARCHIVE_OK);
    archive_write_free(archive);
}

#endif

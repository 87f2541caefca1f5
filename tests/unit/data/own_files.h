/*
 * Files in a folder of the test's own that is removed at the end.
 */
#ifndef TESTS_DATA_OWN_FILES_H
#define TESTS_DATA_OWN_FILES_H

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "testing.h"

static char root[64];

/* A path in the test's folder; valid until the fourth call after. */
static inline const char *in_root(const char *name)
{
    static char paths[4][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", root, name);
    return path;
}

static inline int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/lockstep-test-XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

static inline int remove_entry(const char *path, const struct stat *info,
                               int flag, struct FTW *ftw)
{
    (void)info, (void)flag, (void)ftw;
    return remove(path);
}

static inline int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static inline void write_file(const char *name, const void *data, size_t bytes)
{
    FILE *file = fopen(in_root(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static inline void make_dir(const char *name)
{
    assert_int_equal(mkdir(in_root(name), 0777), 0);
}

#endif

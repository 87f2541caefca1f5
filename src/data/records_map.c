/*
 * A file as records without a copy: a read-only mapping. Its pages belong to
 * the system's cache and are shared by all ranks of a machine, hence they are
 * not counted as memory of this process.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "data/dataset.h"

static void release_mapping(uint8_t *data, size_t bytes)
{
    munmap(data, bytes);
}

static ls_status map_open_file(lsi_records *out, int fd, const char *path)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot examine '%s'", path);
    if (!S_ISREG(info.st_mode))
        return lsi_fail(LS_ERR_IO, "'%s' is not a regular file", path);
    if (info.st_size == 0)
        return lsi_fail(LS_ERR_FORMAT, "'%s' is empty", path);
    const size_t bytes = (size_t)info.st_size;
    void *data = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        return lsi_fail_errno(LS_ERR_IO, "cannot map '%s'", path);
    /* The labels of all records are read next, then samples at random. */
    (void)madvise(data, bytes, MADV_WILLNEED);
    *out = (lsi_records){data, bytes, release_mapping};
    return LS_OK;
}

ls_status lsi_records_map(lsi_records *out, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot open '%s'", path);
    const ls_status status = map_open_file(out, fd, path);
    close(fd);
    return status;
}

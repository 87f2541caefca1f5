/*
 * A file as records without a copy: a read-only mapping. Its pages belong to
 * the system's cache and are shared by all ranks of a machine, hence they are
 * not counted as memory of this process.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "input/data/dataset.h"

enum { READ_AHEAD = 1 << 30 };

static void release_mapping(uint8_t *data, size_t bytes)
{
    munmap(data, bytes);
}

void lsi_records_expect(const uint8_t *data, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t into = (uintptr_t)data % page;
    union {
        const uint8_t *constant;
        void *advised;
    } at = {data - into};
    (void)madvise(at.advised, bytes + into, MADV_WILLNEED);
}

static ls_status map_open_file(lsi_records *out, int fd, size_t bytes,
                               const char *path)
{
    if (bytes == 0)
        return lsi_fail(LS_ERR_FORMAT, "'%s' is empty", path);
    void *data = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        return lsi_fail_errno(LS_ERR_IO, "cannot map '%s'", path);
    /* All of it is used soon, if it is not more than memory holds. */
    if (bytes < READ_AHEAD)
        (void)madvise(data, bytes, MADV_WILLNEED);
    *out = (lsi_records){data, bytes, release_mapping};
    return LS_OK;
}

ls_status lsi_records_map(lsi_records *out, const char *path)
{
    int fd;
    uint64_t bytes;
    LS_TRY(lsi_open_regular(path, 0, &fd, &bytes));
    const ls_status status = map_open_file(out, fd, bytes, path);
    close(fd);
    return status;
}

/*
 * Ranks as processes. Their memory is one memfd, a file without a name that
 * goes away with the last process that holds it, however that ends.
 *
 * The file is made large at once and stays sparse, so nothing ever has to be
 * grown while others look. Each rank holds a record lock on one byte far
 * behind the data. The kernel drops it when the process ends, so a lock that
 * is gone is a process that is gone; unlike process ids this cannot be
 * confused by reuse or by pid namespaces, and needs no permission.
 */
#include "comm/transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"

#define FILE_BYTES ((off_t)1 << 62)

typedef struct shm_node {
    lsi_node base;
    int memfd;
    int rank;
} shm_node;

static shm_node *shm(lsi_node *node)
{
    return (shm_node *)(void *)node;
}

/* The number of the job is the end of the file. */
static off_t job_at(off_t file_bytes)
{
    return file_bytes - (off_t)sizeof(uint64_t);
}

static uint64_t read_job(int memfd)
{
    uint64_t job = 0;
    struct stat info;
    if (fstat(memfd, &info) != 0 ||
        pread(memfd, &job, sizeof(job), job_at(info.st_size)) != sizeof(job))
        return 0;
    return job;
}

ls_status lsi_shm_create(int *memfd)
{
    off_t bytes = FILE_BYTES;
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY && (rlim_t)bytes > limit.rlim_cur)
        bytes = (off_t)limit.rlim_cur; /* beyond it SIGXFSZ would kill us */
    const int fd = memfd_create("lockstep", MFD_CLOEXEC);
    if (fd < 0)
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot create shared memory");
    const uint64_t job = lsi_job_number();
    if (ftruncate(fd, bytes) != 0 ||
        pwrite(fd, &job, sizeof(job), job_at(bytes)) != sizeof(job)) {
        const ls_status status =
            lsi_fail_errno(LS_ERR_SYSTEM, "cannot size shared memory");
        close(fd);
        return status;
    }
    *memfd = fd;
    return LS_OK;
}

/* To touch what lies beyond the end of the file would be SIGBUS. */
static ls_status check_end(int memfd, uint64_t offset, size_t bytes)
{
    struct stat info;
    if (fstat(memfd, &info) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot see the shared memory");
    const uint64_t most = (uint64_t)job_at(info.st_size);
    if (info.st_size > (off_t)sizeof(uint64_t) && bytes <= most &&
        offset <= most - bytes)
        return LS_OK;
    return lsi_fail(
        LS_ERR_MEMORY,
        "cannot share %zu bytes more: the %lld of this job are used "
        "up%s",
        bytes, (long long)info.st_size,
        info.st_size < FILE_BYTES
            ? "; ulimit -f (RLIMIT_FSIZE) allows no larger file"
            : "");
}

static ls_status shm_map(lsi_node *node, uint64_t offset, size_t bytes,
                         void **out)
{
    LS_TRY(check_end(shm(node)->memfd, offset, bytes));
    void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                         shm(node)->memfd, (off_t)offset);
    if (address == MAP_FAILED)
        return lsi_fail_errno(LS_ERR_MEMORY,
                              "cannot map %zu bytes of shared memory", bytes);
    *out = address;
    return LS_OK;
}

static void shm_unmap(lsi_node *node, void *address, size_t bytes)
{
    (void)node;
    munmap(address, bytes);
}

static void shm_discard(lsi_node *node, uint64_t offset, size_t bytes)
{
    (void)fallocate(shm(node)->memfd,
                    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                    (off_t)bytes);
}

static struct flock lock_of(int rank)
{
    return (struct flock){.l_type = F_WRLCK,
                          .l_whence = SEEK_SET,
                          .l_start = FILE_BYTES + rank,
                          .l_len = 1};
}

/* One's own lock never shows, and one is alive. */
static bool shm_alive(lsi_node *node, int rank)
{
    struct flock lock = lock_of(rank);
    if (rank == shm(node)->rank || fcntl(shm(node)->memfd, F_GETLK, &lock) != 0)
        return true;
    return lock.l_type != F_UNLCK;
}

static void shm_destroy(lsi_node *node)
{
    close(shm(node)->memfd);
    lsi_free(node);
}

static const lsi_transport transport = {
    .name = "shm",
    .one_address_space = false,
    .map = shm_map,
    .unmap = shm_unmap,
    .discard = shm_discard,
    .alive = shm_alive,
    .destroy = shm_destroy,
};

ls_status lsi_shm_node(int memfd, int rank, lsi_node **out)
{
    void *block = NULL;
    ls_status status = lsi_alloc_zeroed(&block, sizeof(shm_node),
                                        LS_MEMORY_COMM, "a process group");
    struct flock lock = lock_of(rank);
    if (status == LS_OK && fcntl(memfd, F_SETLK, &lock) != 0)
        status = lsi_fail_errno(LS_ERR_SYSTEM,
                                "cannot lock byte %d of the shared memory "
                                "(is another process rank %d, too?)",
                                rank, rank);
    if (status != LS_OK) {
        lsi_free(block);
        close(memfd);
        return status;
    }
    shm_node *node = block;
    node->base.transport = &transport;
    atomic_init(&node->base.references, 1);
    node->base.job = read_job(memfd);
    node->memfd = memfd;
    node->rank = rank;
    *out = &node->base;
    return LS_OK;
}

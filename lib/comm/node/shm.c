/*
 * Ranks as processes. Their memory is one memfd, a file without a name that
 * goes away with the last process that holds it, however that ends.
 *
 * The file is made large at once and stays sparse, so it never has to grow
 * while others use it. The library keeps the end of the file: the job's number,
 * and the words that show which ranks are alive (life.h).
 *
 * Some systems have no means for such words: no robust futexes (under some
 * emulators and filters), or no thread available. There a rank holds a record
 * lock on one byte far past the data instead. The kernel drops the lock, too,
 * when the process ends, but also when the process closes a descriptor of the
 * file that other code has opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/newer_kernel.h"
#include "comm/node/huge.h"
#include "comm/node/life.h"
#include "comm/node/transport.h"
#include "comm/state/segment.h"
#include "comm/state/state.h"

#define FILE_BYTES ((off_t)1 << 62)

/* The end of the file. */
typedef struct tail {
    uint64_t job; /* its number */
    lsi_life lives[LSI_MAX_RANKS];
} tail;

#define TAIL_BYTES ((sizeof(tail) + LSI_PAGE - 1) / LSI_PAGE * LSI_PAGE)

/* The word of a rank that shows by a lock that it is alive. */
#define BY_LOCK FUTEX_WAITERS

typedef struct shm_node {
    lsi_node_memory base;
    int memfd;
    int rank;
    uint64_t room; /* bytes of the file that are the job's */
    tail *tail;
    lsi_keeper *keeper; /* NULL: by lock */
} shm_node;

static shm_node *shm(lsi_node_memory *node)
{
    return (shm_node *)(void *)node;
}

/* The offset of the tail; the bytes ahead of it are the job's. */
static off_t tail_at(off_t file_bytes)
{
    return (file_bytes - (off_t)TAIL_BYTES) / LSI_PAGE * LSI_PAGE;
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
    ls_status status = LS_OK;
    if (bytes < (off_t)TAIL_BYTES)
        status = lsi_fail(
            LS_ERR_MEMORY,
            "ulimit -f (RLIMIT_FSIZE) allows only %lld bytes of shared memory, "
            "but every job needs more; raise this limit",
            (long long)bytes);
    else if (ftruncate(fd, bytes) != 0 ||
             pwrite(fd, &job, sizeof(job), tail_at(bytes)) != sizeof(job))
        status = lsi_fail_errno(LS_ERR_SYSTEM,
                                "cannot set the size of shared memory");
    if (status != LS_OK) {
        close(fd);
        return status;
    }
    *memfd = fd;
    return LS_OK;
}

/*
 * Whether a range is within the job's bytes. The tail follows them, and
 * touching memory past the end of the file raises SIGBUS.
 */
static bool is_inside(const shm_node *node, uint64_t offset, size_t bytes)
{
    return bytes <= node->room && offset <= node->room - bytes;
}

static ls_status no_room(const shm_node *node, size_t bytes)
{
    return lsi_fail(LS_ERR_MEMORY,
                    "cannot share %zu more bytes: this job has used all %llu "
                    "bytes of its shared memory%s",
                    bytes, (unsigned long long)node->room,
                    node->room < (uint64_t)tail_at(FILE_BYTES)
                        ? "; raise ulimit -f (RLIMIT_FSIZE)"
                        : "");
}

static ls_status shm_map(lsi_node_memory *node, uint64_t offset, size_t bytes,
                         void **out)
{
    if (!is_inside(shm(node), offset, bytes))
        return no_room(shm(node), bytes);
    void *address = lsi_map_shared(shm(node)->memfd, offset, bytes);
    if (address == MAP_FAILED)
        return lsi_fail_errno(LS_ERR_MEMORY,
                              "cannot map %zu bytes of shared memory", bytes);
    *out = address;
    return LS_OK;
}

static void shm_unmap(lsi_node_memory *node, void *address, size_t bytes)
{
    (void)node;
    munmap(address, bytes);
}

static bool shm_leave(lsi_node_memory *node, void *address)
{
    (void)node;
    (void)address;
    return true;
}

/*
 * Each rank reserves its own part, with the effects of a first touch. The pages
 * go where the rank runs, and are huge where these are granted. In total it
 * takes as long as touching. Kernels before 5.14 can only fill the file.
 */
static ls_status shm_reserve(lsi_node_memory *node, uint64_t offset,
                             void *address, size_t bytes)
{
    lsi_use_huge_pages(address, bytes);
    int failed = madvise(address, bytes, MADV_POPULATE_WRITE);
    if (failed != 0 && errno == EINVAL)
        do
            failed = fallocate(shm(node)->memfd, FALLOC_FL_KEEP_SIZE,
                               (off_t)offset, (off_t)bytes);
        while (failed != 0 && errno == EINTR);
    if (failed == 0)
        return LS_OK;
    return lsi_fail(LS_ERR_MEMORY,
                    "a shared buffer: the system cannot provide %zu bytes for "
                    "the part of rank %d",
                    bytes, shm(node)->rank);
}

static bool shm_discard(lsi_node_memory *node, uint64_t offset, size_t bytes)
{
    return is_inside(shm(node), offset, bytes) &&
           fallocate(shm(node)->memfd,
                     FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                     (off_t)bytes) == 0;
}

/* ---- who lives ----------------------------------------------------------- */

static struct flock lock_of(int rank)
{
    return (struct flock){.l_type = F_WRLCK,
                          .l_whence = SEEK_SET,
                          .l_start = FILE_BYTES + rank,
                          .l_len = 1};
}

static bool is_locked(const shm_node *node, int rank)
{
    struct flock lock = lock_of(rank);
    return fcntl(node->memfd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/* One's own lock never shows, and one is alive. */
static bool shm_alive(lsi_node_memory *base, int rank)
{
    const shm_node *node = shm(base);
    const lsi_life *life = &node->tail->lives[rank];
    if (rank == node->rank)
        return true;
    return atomic_load(&life->owner) == BY_LOCK ? is_locked(node, rank)
                                                : lsi_life_shows(life);
}

static ls_status show_life(shm_node *node)
{
    lsi_life *life = &node->tail->lives[node->rank];
    struct flock lock = lock_of(node->rank);
    if (lsi_life_shows(life))
        return lsi_fail(LS_ERR_SYSTEM,
                        "another process is also rank %d of this job",
                        node->rank);
    if (lsi_life_begin(life, &node->keeper))
        return LS_OK;
    if (fcntl(node->memfd, F_SETLK, &lock) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot lock byte %d of the shared memory; "
                              "another process may also be rank %d",
                              node->rank, node->rank);
    atomic_store(&life->owner, BY_LOCK);
    return LS_OK;
}

/* ---- making and destroying ----------------------------------------------- */

static void shm_destroy(lsi_node_memory *base)
{
    shm_node *node = shm(base);
    lsi_life_end(node->keeper);
    if (node->tail != NULL)
        munmap(node->tail, TAIL_BYTES);
    close(node->memfd);
    lsi_free(node);
}

static ls_status map_tail(shm_node *node)
{
    struct stat info;
    if (fstat(node->memfd, &info) != 0 || info.st_size < (off_t)TAIL_BYTES)
        return lsi_fail(
            LS_ERR_SYSTEM,
            "rank 0 sent a file that is not the shared memory of a job. Link "
            "all ranks with the same version of the library");
    node->room = (uint64_t)tail_at(info.st_size);
    void *at = mmap(NULL, TAIL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                    node->memfd, (off_t)node->room);
    if (at == MAP_FAILED)
        return lsi_fail_errno(
            LS_ERR_MEMORY,
            "cannot map the last part of the job's shared memory");
    node->tail = at;
    return LS_OK;
}

static const lsi_transport transport = {
    .name = "shm",
    .channel = &lsi_channel_memory,
    .one_address_space = false,
    .map = shm_map,
    .reserve = shm_reserve,
    .unmap = shm_unmap,
    .leave = shm_leave,
    .discard = shm_discard,
    .alive = shm_alive,
    .destroy = shm_destroy,
};

ls_status lsi_node_memory_shm(int memfd, int rank, lsi_node_memory **out)
{
    shm_node *node = NULL;
    ls_status status = lsi_alloc_zeroed(&node, sizeof(shm_node), LS_MEMORY_COMM,
                                        "a process group");
    if (status != LS_OK) {
        close(memfd);
        return status;
    }
    node->base.transport = &transport;
    node->base.past_caches = lsi_cpu_stores_wait();
    atomic_init(&node->base.references, 1);
    node->memfd = memfd;
    node->rank = rank;
    status = map_tail(node);
    if (status == LS_OK)
        status = show_life(node);
    if (status != LS_OK) {
        shm_destroy(&node->base);
        return status;
    }
    node->base.job = node->tail->job;
    *out = &node->base;
    return LS_OK;
}

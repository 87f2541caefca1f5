/*
 * Memory of the stand-in. A block is a file that is mapped twice: where the
 * program sees it, without any access, and where streams reach it.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inside.h"

enum { BLOCKS = 256, UNIT = 2 << 20 };

typedef enum origin { OF_POOL, PLAIN, ATTACHED } origin;

typedef struct block {
    char *outside; /* NULL: a free place */
    char *inside;
    size_t bytes;  /* as asked for */
    size_t mapped; /* whole pages */
    int file;      /* -1 but of PLAIN, which others may attach */
    CUcontext context;
    origin from;
} block;

/* What a handle says. */
typedef struct ticket {
    pid_t owner;
    int file;
    size_t bytes;
} ticket;

static block blocks[BLOCKS];

/* ---- blocks; all locked -------------------------------------------------- */

static block *find(CUdeviceptr at)
{
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].outside != NULL &&
            at - (CUdeviceptr)(uintptr_t)blocks[i].outside < blocks[i].bytes)
            return &blocks[i];
    return NULL;
}

char *standin_reach(CUcontext context, CUdeviceptr at, size_t bytes)
{
    const block *const b = find(at);
    if (b == NULL || b->context != context)
        return NULL;
    const size_t offset = (size_t)(at - (CUdeviceptr)(uintptr_t)b->outside);
    return bytes <= b->bytes - offset ? b->inside + offset : NULL;
}

static void unmap(block *b)
{
    munmap(b->outside, b->mapped);
    munmap(b->inside, b->mapped);
    if (b->file >= 0)
        close(b->file);
    if (b->from == ATTACHED) {
        standin_all.counts.attached--;
    } else {
        b->context->used -= b->bytes;
        standin_all.counts.blocks--;
    }
    b->outside = NULL;
}

void standin_unmap(CUdeviceptr at)
{
    block *const b = find(at);
    if (b != NULL)
        unmap(b);
}

/* A new block of the file, of which it is the owner. */
static block *map(CUcontext context, int file, size_t bytes, origin from)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t mapped = (bytes + page - 1) / page * page;
    block *b = blocks;
    while (b < blocks + BLOCKS && b->outside != NULL)
        b++;
    if (b == blocks + BLOCKS || file < 0)
        abort();
    void *const outside = mmap(NULL, mapped, PROT_NONE, MAP_SHARED, file, 0);
    void *const inside =
        mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (outside == MAP_FAILED || inside == MAP_FAILED)
        abort();
    if (from != PLAIN) {
        close(file);
        file = -1;
    }
    *b = (block){outside, inside, bytes, mapped, file, context, from};
    return b;
}

static CUresult make(CUcontext context, CUdeviceptr *out, size_t bytes,
                     origin from)
{
    const size_t room = standin_all.settings.room;
    if (room > 0 && bytes > room - context->used)
        return OUT_OF_MEMORY;
    const int file = memfd_create("stand-in", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
        abort();
    block *const b = map(context, file, bytes, from);
    memset(b->inside, 0xA5, bytes); /* undefined, and not zero */
    context->used += bytes;
    standin_all.counts.blocks++;
    *out = (CUdeviceptr)(uintptr_t)b->outside;
    return 0;
}

/* ---- what the module calls ----------------------------------------------- */

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    CUcontext context = NULL;
    CUresult result = standin_check(&context);
    if (result == 0)
        result = standin_check_stream(stream);
    if (result != 0)
        return result;
    if (standin_all.settings.has_no_pools)
        return NOT_SUPPORTED;
    if (bytes == 0)
        return INVALID_VALUE;
    pthread_mutex_lock(&standin_all.lock);
    result = make(context, out, bytes, OF_POOL);
    if (result == OUT_OF_MEMORY) { /* what the stream frees first counts */
        standin_drain(stream);
        result = make(context, out, bytes, OF_POOL);
    }
    pthread_mutex_unlock(&standin_all.lock);
    return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    CUcontext context = NULL;
    CUresult result = standin_check(&context);
    if (result != 0)
        return result;
    if (bytes == 0)
        return INVALID_VALUE;
    pthread_mutex_lock(&standin_all.lock);
    result = make(context, out, bytes, PLAIN);
    pthread_mutex_unlock(&standin_all.lock);
    return result;
}

/* Gives back at once what is of that origin and begins there. */
static CUresult take_away(CUdeviceptr at, origin from)
{
    CUcontext context = NULL;
    CUresult result = standin_current(&context);
    if (result != 0)
        return result;
    pthread_mutex_lock(&standin_all.lock);
    result = context->failure;
    block *const b = find(at);
    if (b == NULL || b->context != context || b->from != from ||
        (CUdeviceptr)(uintptr_t)b->outside != at)
        result = INVALID_VALUE;
    else
        unmap(b);
    pthread_mutex_unlock(&standin_all.lock);
    return result;
}

CUresult cuMemFree_v2(CUdeviceptr at)
{
    return take_away(at, PLAIN);
}

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    CUcontext context = NULL;
    const CUresult result = standin_check(&context);
    if (result != 0)
        return result;
    if (flags != 0 || bytes == 0)
        return INVALID_VALUE;
    void *made = NULL;
    if (posix_memalign(&made, 4096, bytes) != 0)
        return OUT_OF_MEMORY;
    pthread_mutex_lock(&standin_all.lock);
    standin_all.counts.pinned++;
    pthread_mutex_unlock(&standin_all.lock);
    *out = made;
    return 0;
}

CUresult cuMemFreeHost(void *made)
{
    CUcontext context = NULL;
    CUresult result = standin_current(&context);
    if (result != 0)
        return result;
    pthread_mutex_lock(&standin_all.lock);
    result = context->failure;
    standin_all.counts.pinned--;
    pthread_mutex_unlock(&standin_all.lock);
    free(made);
    return result;
}

/* ---- sharing ------------------------------------------------------------- */

/* What others would see besides the block is refused. */
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr at)
{
    CUcontext context = NULL;
    CUresult result = standin_check(&context);
    if (result != 0)
        return result;
    pthread_mutex_lock(&standin_all.lock);
    const block *const b = find(at);
    if (b == NULL || b->from != PLAIN || b->bytes % UNIT != 0) {
        result = INVALID_VALUE;
    } else {
        const ticket t = {getpid(), b->file, b->bytes};
        memset(handle, 0, sizeof(*handle));
        memcpy(handle, &t, sizeof(t));
    }
    pthread_mutex_unlock(&standin_all.lock);
    return result;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle,
                               unsigned flags)
{
    CUcontext context = NULL;
    char path[64];
    ticket t;
    const CUresult result = standin_check(&context);
    if (result != 0)
        return result;
    memcpy(&t, &handle, sizeof(t));
    if (flags != LSI_CUDA_IPC_LAZY_PEER_ACCESS)
        return INVALID_VALUE;
    if (t.owner == getpid())
        return INVALID_CONTEXT;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)t.owner, t.file);
    const int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return INVALID_HANDLE;
    pthread_mutex_lock(&standin_all.lock);
    const block *const b = map(context, file, t.bytes, ATTACHED);
    standin_all.counts.attached++;
    pthread_mutex_unlock(&standin_all.lock);
    *out = (CUdeviceptr)(uintptr_t)b->outside;
    return 0;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr at)
{
    return take_away(at, ATTACHED);
}

/*
 * Interposes on the C library. Calls that are not armed go on to it, except
 * that nothing is synced: no test looks at what a power cut leaves.
 */
#include "faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The replacements have the names of libc's functions. Their parameters differ
 * in name, as libc's are reserved. glibc's own malloc is called by the names
 * that need no lookup, as a lookup allocates.
 * NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c)
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
 */

static fault armed;
static atomic_int left; /* calls until the one that fails; 0: none does */
static atomic_bool fired;

void faults_arm(const fault *what, int k)
{
    armed = *what;
    atomic_store(&fired, false);
    atomic_store(&left, k);
}

bool faults_disarm(void)
{
    atomic_store(&left, 0);
    return atomic_load(&fired);
}

/* Whether this call is to fail; it then fails with armed.error. */
static bool fails(fault_call call)
{
    if (atomic_load(&left) <= 0 || armed.call != call)
        return false;
    const int before = atomic_fetch_sub(&left, 1);
    if (before > 1)
        return false;
    if (armed.stays)
        atomic_store(&left, 1);
    if (before == 1)
        atomic_store(&fired, true);
    return before == 1;
}

/* The C library's function of that name. */
#define REAL(name) ((__typeof__(&(name)))real(#name))

static void *real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* ---- bytes --------------------------------------------------------------- */

/* How many of them go through; -1: the call fails. */
static ssize_t allowed(fault_call call, size_t bytes)
{
    if (bytes == 0 || !fails(call))
        return (ssize_t)bytes;
    if (armed.error == 0)
        return (ssize_t)((bytes + 1) / 2);
    errno = armed.error;
    return -1;
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    const ssize_t n = fd > 2 ? allowed(FAULT_WRITE, bytes) : (ssize_t)bytes;
    return n < 0 ? -1 : REAL(write)(fd, data, (size_t)n);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    const ssize_t n = allowed(FAULT_WRITE, bytes);
    return n < 0 ? -1 : REAL(pwrite)(fd, data, (size_t)n, at);
}

ssize_t read(int fd, void *data, size_t bytes)
{
    const ssize_t n = allowed(FAULT_READ, bytes);
    return n < 0 ? -1 : REAL(read)(fd, data, (size_t)n);
}

ssize_t pread(int fd, void *data, size_t bytes, off_t at)
{
    const ssize_t n = allowed(FAULT_READ, bytes);
    return n < 0 ? -1 : REAL(pread)(fd, data, (size_t)n, at);
}

/* ---- files --------------------------------------------------------------- */

static bool refuses(fault_call call)
{
    if (!fails(call))
        return false;
    errno = armed.error;
    return true;
}

static fault_call kind_of(int flags)
{
    return (flags & O_CREAT) != 0 ? FAULT_CREATE : FAULT_OPEN;
}

static mode_t mode_of(int flags, va_list args)
{
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(args, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = mode_of(flags, args);
    va_end(args);
    return refuses(kind_of(flags)) ? -1 : REAL(open)(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = mode_of(flags, args);
    va_end(args);
    return refuses(kind_of(flags)) ? -1
                                   : REAL(openat)(folder, path, flags, mode);
}

int fsync(int fd)
{
    (void)fd;
    return refuses(FAULT_SYNC) ? -1 : 0;
}

int rename(const char *from, const char *to)
{
    return refuses(FAULT_RENAME) ? -1 : REAL(rename)(from, to);
}

int mkdir(const char *path, mode_t mode)
{
    return refuses(FAULT_MAKE) ? -1 : REAL(mkdir)(path, mode);
}

int fstat(int fd, struct stat *info)
{
    return refuses(FAULT_LOOK) ? -1 : REAL(fstat)(fd, info);
}

/* ---- memory -------------------------------------------------------------- */

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes)
{
    return refuses(FAULT_MEMORY) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    return refuses(FAULT_MEMORY) ? NULL : __libc_calloc(n, bytes);
}

void *realloc(void *block, size_t bytes)
{
    return refuses(FAULT_MEMORY) ? NULL : __libc_realloc(block, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    void *const block =
        refuses(FAULT_MEMORY) ? NULL : __libc_memalign(alignment, bytes);
    if (block == NULL)
        return ENOMEM;
    *out = block;
    return 0;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd,
           off_t offset)
{
    return refuses(FAULT_MAP)
               ? MAP_FAILED
               : REAL(mmap)(at, bytes, protection, flags, fd, offset);
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name)
 * NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c)
 */

/*
 * A library to be preloaded that fails one request for memory of a process.
 *
 *   FAILING_WHO   whose requests are counted: "own", those that neither oneDNN
 *                 nor OpenMP has a part in, or "onednn", those of oneDNN's C++,
 *                 which throws if they fail
 *   FAILING_AT    the request that fails, from 1; 0: none
 *   FAILING_RANK  of which rank (default: every process)
 *   FAILING_COUNT a file for the number of requests
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

enum { FRAMES = 64 };

/*
 * glibc's own, under names that need no looking up, and ours in their place. A
 * library may use the names of libc's functions, and only the parameters' names
 * of those are reserved.
 * NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c)
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
 */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

void *memalign(size_t alignment, size_t bytes); /* malloc.h has no more */

static bool counts, of_onednn;
static long fails_at;
static atomic_long counted;
static const void *program; /* where it is loaded */
static _Thread_local bool inside;

static bool is_in(const Dl_info *place, const char *library)
{
    return place->dli_fname != NULL &&
           strstr(place->dli_fname, library) != NULL;
}

/* Whether the request is of the kind that is counted. */
static bool is_ours(void *caller)
{
    void *frames[FRAMES];
    Dl_info place;
    bool started = false, onednn = false, openmp = false;
    const int n = backtrace(frames, FRAMES);
    for (int i = 0; i < n; i++) {
        if (dladdr(frames[i], &place) == 0)
            continue;
        started |= place.dli_fbase == program;
        onednn |= is_in(&place, "libdnnl");
        openmp |= is_in(&place, "libgomp");
    }
    if (!of_onednn)
        return started && !onednn && !openmp;
    /* operator new is libstdc++'s */
    return started && onednn && dladdr(caller, &place) != 0 &&
           is_in(&place, "libstdc++");
}

static bool fails(void *caller)
{
    if (!counts || inside)
        return false;
    inside = true; /* finding out may take memory, too */
    const bool now =
        is_ours(caller) && atomic_fetch_add(&counted, 1) + 1 == fails_at;
    inside = false;
    if (now)
        errno = ENOMEM;
    return now;
}

void *malloc(size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, bytes);
}

void *realloc(void *block, size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL
                                              : __libc_realloc(block, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    return fails(__builtin_return_address(0))
               ? NULL
               : __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return fails(__builtin_return_address(0))
               ? NULL
               : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes)
{
    void *const made = fails(__builtin_return_address(0))
                           ? NULL
                           : __libc_memalign(alignment, bytes);
    if (made == NULL)
        return ENOMEM;
    *block = made;
    return 0;
}

/*
 * NOLINTEND(readability-inconsistent-declaration-parameter-name)
 * NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c)
 */

__attribute__((constructor)) static void begin(void)
{
    void *first[1];
    Dl_info place;
    const char *const who = getenv("FAILING_WHO");
    const char *const at = getenv("FAILING_AT");
    const char *const rank = getenv("FAILING_RANK");
    const char *const own = getenv("RANK");
    (void)backtrace(first, 1); /* loads what it needs */
    if (dladdr((void *)getauxval(AT_ENTRY), &place) != 0)
        program = place.dli_fbase;
    of_onednn = who != NULL && strcmp(who, "onednn") == 0;
    fails_at = at != NULL ? strtol(at, NULL, 10) : 0;
    counts = rank == NULL || (own != NULL && strcmp(own, rank) == 0);
}

__attribute__((destructor)) static void end(void)
{
    const char *const path = getenv("FAILING_COUNT");
    char text[32];
    if (!counts || path == NULL)
        return;
    counts = false;
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const int length =
        snprintf(text, sizeof(text), "%ld", atomic_load(&counted));
    if (file < 0 || write(file, text, (size_t)length) != length)
        _exit(99);
    close(file);
}

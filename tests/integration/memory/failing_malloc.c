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
#include <link.h>
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

/* dladdr would look for the name of the function, too, which takes long. */
static bool find(void *address, struct dl_find_object *object)
{
    return _dl_find_object(address, object) == 0;
}

static bool is_in(const struct dl_find_object *object, const char *library)
{
    return strstr(object->dlfo_link_map->l_name, library) != NULL;
}

/* Whether the request is of the kind that is counted. */
static bool is_ours(void *caller)
{
    void *frames[FRAMES];
    struct dl_find_object object;
    bool started = false, onednn = false, openmp = false;
    const int n = backtrace(frames, FRAMES);
    for (int i = 0; i < n; i++) {
        if (!find(frames[i], &object))
            continue;
        started |= object.dlfo_map_start == program;
        onednn |= is_in(&object, "libdnnl");
        openmp |= is_in(&object, "libgomp");
    }
    if (!of_onednn)
        return started && !onednn && !openmp;
    /* operator new is libstdc++'s */
    return started && onednn && find(caller, &object) &&
           is_in(&object, "libstdc++");
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
    struct dl_find_object object;
    const char *const who = getenv("FAILING_WHO");
    const char *const at = getenv("FAILING_AT");
    const char *const rank = getenv("FAILING_RANK");
    const char *const own = getenv("RANK");
    (void)backtrace(first, 1); /* loads what it needs */
    if (find((void *)getauxval(AT_ENTRY), &object))
        program = object.dlfo_map_start;
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

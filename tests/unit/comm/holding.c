#include "holding.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/state/state.h"
#include "ranks.h"

/* malloc takes and returns some at a time. */
enum { HEAP_PAGES = 64 };

enum { DESCRIPTORS = 256 };

/* The blocks of the file that is called so in /proc; -1 if it is another. */
static long long blocks_of(int fd)
{
    char path[64], name[128];
    struct stat info;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(path, name, sizeof(name) - 1);
    if (length < 0)
        return -1;
    name[length] = '\0';
    if (strstr(name, "memfd:lockstep") == NULL || fstat(fd, &info) != 0)
        return -1;
    return info.st_blocks;
}

/* Pages; the sanitizers take what they like. */
static long address_space(void)
{
    long pages = 0;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
#endif
    return pages;
}

holding look(const ls_group *group)
{
    holding found = {.end = atomic_load(&group->memory.job->end)};
    /* First, as to look at a page takes it. */
    for (int i = 0; i < LSI_VACANCIES; i++)
        found.rows += atomic_load(&group->memory.job->vacancies[i].state) != 0;
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        const long long blocks = blocks_of(fd);
        found.descriptors += fcntl(fd, F_GETFD) >= 0;
        if (blocks >= 0)
            found.shared = blocks;
    }
    found.pages = address_space();
    return found;
}

void check_same(ls_group *group, const holding *before, const char *what)
{
    CHECK_OK(ls_barrier(group));
    const holding after = look(group);
    CHECK_OK(ls_barrier(group));
    if (after.shared == before->shared && after.end == before->end &&
        after.pages <= before->pages + HEAP_PAGES &&
        after.descriptors == before->descriptors)
        return;
    fprintf(stderr,
            "%s: shared %lld -> %lld blocks, taken %llu -> %llu bytes, "
            "addresses %ld -> %ld pages, descriptors %d -> %d\n",
            what, before->shared, after.shared, (unsigned long long)before->end,
            (unsigned long long)after.end, before->pages, after.pages,
            before->descriptors, after.descriptors);
    abort();
}

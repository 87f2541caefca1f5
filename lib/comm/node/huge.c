/*
 * The kernel backs a file in memory with pages of 4 KiB, unless an
 * administrator has changed shmem_enabled (default: `never`). madvise with
 * MADV_HUGEPAGE alone changes nothing then. Since Linux 6.1 a process may ask
 * for particular huge pages: MADV_COLLAPSE. This has two advantages. Other
 * ranks map 2 MiB by one fault, not by 512, and reading is as fast as in
 * private memory.
 */
#include "comm/node/huge.h"

#include <stdbool.h>
#include <string.h>

#include "base/newer_kernel.h"
#include "base/proc.h"
#include "comm/state/segment.h"

/*
 * Bytes from `from` up to the next address with the offset within a huge page
 * that `offset` has in the file.
 */
static size_t missing(uintptr_t from, uint64_t offset)
{
    return (size_t)((offset - from) & (LSI_HUGE_PAGE - 1));
}

void *lsi_map_shared(int fd, uint64_t offset, size_t bytes)
{
    const int access = PROT_READ | PROT_WRITE;
    if (bytes < LSI_HUGE_PAGE)
        return mmap(NULL, bytes, access, MAP_SHARED, fd, (off_t)offset);
    const size_t room = bytes + LSI_HUGE_PAGE;
    char *const all = mmap(NULL, room, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        return MAP_FAILED;
    const size_t before = missing((uintptr_t)all, offset);
    char *const at = mmap(all + before, bytes, access, MAP_SHARED | MAP_FIXED,
                          fd, (off_t)offset);
    if (at == MAP_FAILED) {
        munmap(all, room);
        return MAP_FAILED;
    }
    char *const end = at + (bytes + LSI_PAGE - 1) / LSI_PAGE * LSI_PAGE;
    if (before > 0)
        munmap(all, before);
    if (all + room > end)
        munmap(end, (size_t)(all + room - end));
    return at;
}

/* MADV_COLLAPSE itself ignores this setting. */
static bool are_wanted(void)
{
    char text[128];
    return lsi_proc_read("/sys/kernel/mm/transparent_hugepage/enabled", text,
                         sizeof(text)) > 0 &&
           strstr(text, "[never]") == NULL;
}

/* Populates one small page first: a hole in a file cannot be collapsed. */
void lsi_use_huge_pages(void *address, size_t bytes)
{
    const size_t before = missing((uintptr_t)address, 0);
    if (bytes < before + LSI_HUGE_PAGE || !are_wanted())
        return;
    const size_t n = (bytes - before) / LSI_HUGE_PAGE;
    for (size_t i = 0; i < n; i++) {
        char *const page = (char *)address + before + i * LSI_HUGE_PAGE;
        if (madvise(page, LSI_PAGE, MADV_POPULATE_WRITE) != 0 ||
            madvise(page, LSI_HUGE_PAGE, MADV_COLLAPSE) != 0)
            return;
    }
}

#include "model/autograd/params/page_guard.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"

/* The number of the first page that begins at the address or after it. */
static size_t page_after(const lsi_page_guard *g, uintptr_t address)
{
    const size_t at =
        address <= g->first ? 0 : (address - g->first + g->page - 1) / g->page;
    return at < g->n ? at : g->n;
}

/* The pages that a range touches. */
static lsi_range pages_of(const lsi_page_guard *g, lsi_range elements)
{
    const uintptr_t begin = (uintptr_t)(g->data + elements.begin * g->size);
    const uintptr_t end = (uintptr_t)(g->data + elements.end * g->size);
    if (begin >= end || g->n == 0)
        return (lsi_range){0, 0};
    return (lsi_range){page_after(g, begin - begin % g->page),
                       page_after(g, end)};
}

/*
 * A network's library may have registered closed pages, which other ranks will
 * give back. It notices MADV_DONTNEED, and forgets them.
 */
static bool protect(void *at, size_t bytes, bool open)
{
    if (!open)
        (void)madvise(at, bytes, MADV_DONTNEED);
    return mprotect(at, bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0;
}

/* Opens or closes those of the pages that nobody uses. */
static ls_status protect_unused(const lsi_page_guard *g, lsi_range pages,
                                bool open)
{
    for (size_t at = pages.begin, end; at < pages.end; at = end + 1) {
        for (end = at; end < pages.end && g->users[end] == 0;)
            end++;
        const size_t bytes = (end - at) * g->page;
        if (bytes > 0 &&
            !protect((void *)(g->first + at * g->page), bytes, open))
            return lsi_fail_errno(
                LS_ERR_MEMORY,
                "cannot change the access to %zu bytes of weights; if the "
                "process has too many mappings, raise vm.max_map_count",
                bytes);
    }
    return LS_OK;
}

ls_status lsi_page_guard_new(lsi_page_guard *guard, void *data, size_t size,
                             size_t count, const lsi_range *kept, size_t n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = (uintptr_t)data, end = begin + count * size;
    const uintptr_t first = (begin + page - 1) / page * page;
    lsi_page_guard g = {.data = data, .size = size, .first = first};
    g.page = page;
    g.n = end > first ? (end - first) / page : 0;
    LS_TRY(lsi_alloc_zeroed(&g.users, g.n * sizeof(uint16_t), LS_MEMORY_OTHER,
                            "the use of pages of weights"));
    for (size_t i = 0; i < n; i++) {
        const lsi_range pages = pages_of(&g, kept[i]);
        for (size_t p = pages.begin; p < pages.end; p++)
            g.users[p]++;
    }
    const ls_status status = protect_unused(&g, (lsi_range){0, g.n}, false);
    if (status != LS_OK) {
        lsi_free(g.users);
        return status;
    }
    *guard = g;
    return LS_OK;
}

void lsi_page_guard_free(lsi_page_guard *guard)
{
    lsi_free(guard->users);
    *guard = (lsi_page_guard){.data = NULL};
}

ls_status lsi_page_guard_open(lsi_page_guard *guard, lsi_range elements)
{
    const lsi_range pages = pages_of(guard, elements);
    LS_TRY(protect_unused(guard, pages, true));
    for (size_t p = pages.begin; p < pages.end; p++)
        guard->users[p]++;
    return LS_OK;
}

void lsi_page_guard_close(lsi_page_guard *guard, lsi_range elements)
{
    const lsi_range pages = pages_of(guard, elements);
    for (size_t p = pages.begin; p < pages.end; p++) {
        assert(guard->users[p] > 0);
        guard->users[p]--;
    }
    ls_ignore(protect_unused(guard, pages, false)); /* they stay readable */
}

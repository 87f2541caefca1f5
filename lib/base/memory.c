/*
 * The accounting allocator. It counts requested bytes, without the header ahead
 * of a block and the rounding to its alignment. So the numbers are those that a
 * reader computes from shapes.
 */
#include "base/memory.h"

#include <assert.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/lists.h"
#include "base/meminfo.h"
#include "base/structs.h"

#undef lsi_alloc
#undef lsi_alloc_zeroed

enum {
    ALIGNMENT = 64,
    HUGE_PAGE = 2 << 20,
    BLOCK_MAGIC = 0x6c73626b,
    LARGE = 256 << 20 /* worth asking the kernel about */
};

/* Fills one alignment unit, so that the block after it is aligned, too. */
typedef struct block_header {
    _Alignas(ALIGNMENT) size_t bytes;
    ls_memory_tag tag;
    int magic;
    bool kept; /* for a pool: lsi_alloc_kept */
} block_header;

_Static_assert(sizeof(block_header) == ALIGNMENT, "the block must be aligned");

typedef struct counter {
    atomic_size_t live, peak;
    _Atomic uint64_t allocated;
} counter;

static counter counters[LS_MEMORY_TAG_COUNT];
static counter total;
static atomic_size_t budget;  /* 0: none */
static atomic_size_t refused; /* see lsi_memory_take_refused */
static atomic_size_t kept;    /* bytes of lsi_alloc_kept */

_Atomic(const lsi_memory_hook *) lsi_memory_hooked;

const char *ls_memory_tag_name(ls_memory_tag tag)
{
    switch (tag) {
#define X(name, value, text)                                                   \
    case LS_MEMORY_##name:                                                     \
        return text;
        LSI_MEMORY_TAG_LIST(X)
#undef X
    }
    return "unknown";
}

static void read_counter(counter *from, ls_memory_stats *out)
{
    out->live_bytes = atomic_load(&from->live);
    out->peak_bytes = atomic_load(&from->peak);
    out->allocated = atomic_load(&from->allocated);
}

void ls_memory_total(ls_memory_stats *out)
{
    if (out == NULL)
        return;
    read_counter(&total, out);
}

void ls_memory_of(ls_memory_tag tag, ls_memory_stats *out)
{
    if (out == NULL)
        return;
    if ((unsigned)tag < LS_MEMORY_TAG_COUNT)
        read_counter(&counters[tag], out);
    else
        *out = (ls_memory_stats){0};
}

void ls_memory_reset_peak(void)
{
    atomic_store(&total.peak, atomic_load(&total.live));
    for (int tag = 0; tag < LS_MEMORY_TAG_COUNT; tag++)
        atomic_store(&counters[tag].peak, atomic_load(&counters[tag].live));
}

void ls_memory_set_budget(size_t bytes)
{
    atomic_store(&budget, bytes);
}

static void raise_peak(counter *which, size_t live)
{
    size_t peak = atomic_load(&which->peak);
    while (live > peak &&
           !atomic_compare_exchange_weak(&which->peak, &peak, live)) {
    }
}

/*
 * For errors: the tags with the most memory, and its holders if they are
 * recorded.
 */
typedef struct holders {
    char text[560];
} holders;

static holders who_holds(void)
{
    enum { SHOWN = 3 };
    holders out = {""};
    size_t live[LS_MEMORY_TAG_COUNT], used = 0;
    for (int tag = 0; tag < LS_MEMORY_TAG_COUNT; tag++)
        live[tag] = atomic_load(&counters[tag].live);
    for (int place = 0; place < SHOWN; place++) {
        int most = 0;
        for (int tag = 1; tag < LS_MEMORY_TAG_COUNT; tag++)
            most = live[tag] > live[most] ? tag : most;
        if (live[most] == 0)
            break;
        const int n =
            snprintf(out.text + used, sizeof(out.text) - used, "%s%s %zu bytes",
                     place == 0 ? ". In use by kind: " : ", ",
                     ls_memory_tag_name((ls_memory_tag)most), live[most]);
        used += n > 0 ? (size_t)n : 0;
        live[most] = 0;
    }
    const lsi_memory_hook *const hook = lsi_memory_get_hook();
    if (hook != NULL)
        hook->refused(out.text + used, sizeof(out.text) - used);
    return out;
}

/*
 * Takes `bytes` of the total, and only then counts them: a request that fails
 * must show neither as live nor in a peak. *live is the total with them.
 */
static ls_status reserve(size_t bytes, ls_memory_tag tag, const char *what,
                         size_t *live)
{
    assert((unsigned)tag < LS_MEMORY_TAG_COUNT);
    const size_t limit = atomic_load(&budget);
    size_t before = atomic_load(&total.live);
    do {
        if (bytes > SIZE_MAX - before)
            return lsi_fail(LS_ERR_MEMORY,
                            "%s: cannot allocate %zu bytes: a process cannot "
                            "address this many bytes",
                            what, bytes);
        *live = before + bytes;
        if (limit != 0 && *live > limit) {
            atomic_store(&refused, *live);
            return lsi_fail(LS_ERR_BUDGET,
                            "%s: %zu bytes (%s) would exceed the memory budget "
                            "of %zu bytes; %zu bytes are in use%s",
                            what, bytes, ls_memory_tag_name(tag), limit, before,
                            who_holds().text);
        }
    } while (!atomic_compare_exchange_weak(&total.live, &before, *live));
    return LS_OK;
}

static void count(size_t bytes, ls_memory_tag tag, size_t live)
{
    counter *of_tag = &counters[tag];
    atomic_fetch_add(&total.allocated, 1);
    raise_peak(&total, live);
    atomic_fetch_add(&of_tag->allocated, 1);
    raise_peak(of_tag, atomic_fetch_add(&of_tag->live, bytes) + bytes);
}

static void report_counted(int64_t bytes, ls_memory_tag tag)
{
    const lsi_memory_hook *const hook = lsi_memory_get_hook();
    if (hook != NULL)
        hook->counted(bytes, tag);
}

size_t lsi_memory_take_refused(void)
{
    return atomic_exchange(&refused, 0);
}

ls_status lsi_memory_charge(size_t bytes, ls_memory_tag tag, const char *what)
{
    size_t live;
    LS_TRY(reserve(bytes, tag, what, &live));
    count(bytes, tag, live);
    report_counted((int64_t)bytes, tag);
    return LS_OK;
}

ls_status lsi_memory_try(size_t bytes, ls_memory_tag tag, const char *what)
{
    size_t live;
    LS_TRY(reserve(bytes, tag, what, &live));
    atomic_fetch_sub(&total.live, bytes);
    return LS_OK;
}

static void discount(size_t bytes, ls_memory_tag tag)
{
    assert((unsigned)tag < LS_MEMORY_TAG_COUNT);
    atomic_fetch_sub(&counters[tag].live, bytes);
    atomic_fetch_sub(&total.live, bytes);
}

void lsi_memory_discharge(size_t bytes, ls_memory_tag tag)
{
    discount(bytes, tag);
    report_counted(-(int64_t)bytes, tag);
}

void lsi_memory_undo_discharge(size_t bytes, ls_memory_tag tag)
{
    atomic_fetch_add(&counters[tag].live, bytes);
    atomic_fetch_add(&total.live, bytes);
    report_counted((int64_t)bytes, tag);
}

void lsi_memory_move(size_t bytes, ls_memory_tag from, ls_memory_tag to)
{
    atomic_fetch_sub(&counters[from].live, bytes);
    raise_peak(&counters[to],
               atomic_fetch_add(&counters[to].live, bytes) + bytes);
    report_counted(-(int64_t)bytes, from);
    report_counted((int64_t)bytes, to);
}

/* ---- where blocks come from ---------------------------------------------- */

/*
 * The first block chooses the source, unless the program has set an allocator.
 */
enum { UNSETTLED, BEING_SET, SYSTEM, PROGRAM };

static atomic_int source_of_blocks = UNSETTLED;
static ls_allocator of_program; /* once the source is PROGRAM */

ls_status ls_set_allocator(const ls_allocator *allocator)
{
    LS_NEED(allocator);
    ls_allocator given;
    int before = UNSETTLED;
    LS_TRY(LSI_STRUCT_READ(&given, allocator, ls_allocator, release));
    if (given.allocate == NULL || given.release == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "ls_set_allocator: %s is NULL",
                        given.allocate == NULL ? "allocate" : "release");
    if (!atomic_compare_exchange_strong(&source_of_blocks, &before, BEING_SET))
        return lsi_fail(LS_ERR_STATE,
                        "ls_set_allocator: %s; call this function once, before "
                        "the library allocates memory",
                        before == SYSTEM
                            ? "the library has already allocated memory"
                            : "an allocator has already been set");
    of_program = given;
    atomic_store(&source_of_blocks, PROGRAM);
    return LS_OK;
}

/*
 * Chooses the source if none is chosen. Waits while the program sets its own.
 */
static bool program_allocates(void)
{
    int found = atomic_load_explicit(&source_of_blocks, memory_order_acquire);
    while (found == UNSETTLED || found == BEING_SET) {
        if (found == UNSETTLED &&
            atomic_compare_exchange_strong(&source_of_blocks, &found, SYSTEM))
            return false;
        sched_yield();
        found = atomic_load(&source_of_blocks);
    }
    return found == PROGRAM;
}

/* Bytes of a block with its header. */
static size_t whole_of(size_t bytes)
{
    return (sizeof(block_header) + bytes + ALIGNMENT - 1) / ALIGNMENT *
           ALIGNMENT;
}

static void *allocate_from_system(size_t whole, size_t alignment)
{
    void *memory = NULL;
    if (posix_memalign(&memory, alignment, whole) != 0)
        return NULL;
    /* Advice only: a kernel without huge pages may refuse. */
    if (alignment == HUGE_PAGE)
        madvise(memory, whole / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    return memory;
}

/* NULL without memory, or if the sum overflows. */
static block_header *allocate_block(size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    /* Large blocks sit on huge pages where the system grants them. */
    const size_t whole = whole_of(bytes);
    const size_t alignment =
        whole > 2 * (size_t)HUGE_PAGE ? HUGE_PAGE : ALIGNMENT;
    return program_allocates()
               ? of_program.allocate(of_program.context, alignment, whole)
               : allocate_from_system(whole, alignment);
}

static void give_block(block_header *block, size_t bytes)
{
    if (program_allocates())
        of_program.release(of_program.context, block, whole_of(bytes));
    else
        free(block);
}

/* ---- asking before it is taken ------------------------------------------- */

/* Bytes that were promised here and are not in use yet, at least. */
static size_t untouched(void)
{
    const size_t live = atomic_load(&total.live);
    const int64_t resident = lsi_memory_resident();
    return resident < 0 || (size_t)resident > live ? 0
                                                   : live - (size_t)resident;
}

/*
 * The kernel promises memory that it does not have, and kills the process that
 * uses it. So a large block is compared with the available memory, less the
 * earlier promises to this process, unless a budget is set. The code that makes
 * other ranks allocate accounts for them (train/memory_demand.h).
 */
ls_status lsi_memory_ask(size_t bytes, ls_memory_tag tag, const char *what)
{
    if (bytes < LARGE || atomic_load(&budget) != 0)
        return LS_OK;
    const int64_t free_now = lsi_memory_available();
    const size_t promised = untouched();
    if (free_now < 0)
        return LS_OK;
    const size_t available =
        promised < (size_t)free_now ? (size_t)free_now - promised : 0;
    if (bytes <= available)
        return LS_OK;
    atomic_store(&refused, atomic_load(&total.live) + bytes);
    return lsi_fail(
        LS_ERR_MEMORY,
        "%s: %zu bytes (%s) do not fit into memory; %zu bytes are available%s",
        what, bytes, ls_memory_tag_name(tag), available, who_holds().text);
}

static ls_status allocate(const block_header *wish, const char *what,
                          void **out)
{
    const size_t bytes = wish->bytes;
    size_t live;
    if (!program_allocates()) /* which knows what it has */
        LS_TRY(lsi_memory_ask(bytes, wish->tag, what));
    LS_TRY(reserve(bytes, wish->tag, what, &live));
    block_header *header = allocate_block(bytes);
    if (header == NULL) {
        atomic_fetch_sub(&total.live, bytes);
        atomic_store(&refused, live);
        return lsi_fail(
            LS_ERR_MEMORY, "%s: %s cannot provide %zu bytes (%s)%s", what,
            program_allocates() ? "the program's allocator" : "the system",
            bytes, ls_memory_tag_name(wish->tag), who_holds().text);
    }
    count(bytes, wish->tag, live);
    *header = *wish;
    header->magic = BLOCK_MAGIC;
    *out = header + 1;
    return LS_OK;
}

ls_status lsi_alloc(void *out, size_t bytes, ls_memory_tag tag,
                    const char *what)
{
    const block_header wish = {.bytes = bytes, .tag = tag};
    void *block;
    LS_TRY(allocate(&wish, what, &block));
    memcpy(out, &block, sizeof(block));
    const lsi_memory_hook *const hook = lsi_memory_get_hook();
    if (hook != NULL)
        hook->taken(block, bytes, tag, what, false);
    return LS_OK;
}

ls_status lsi_alloc_kept(void **out, size_t bytes, const char *what)
{
    const block_header wish = {
        .bytes = bytes, .tag = LS_MEMORY_ACTIVATIONS, .kept = true};
    LS_TRY(allocate(&wish, what, out));
    atomic_fetch_add(&kept, bytes);
    const lsi_memory_hook *const hook = lsi_memory_get_hook();
    if (hook != NULL)
        hook->kept((int64_t)bytes);
    return LS_OK;
}

size_t lsi_memory_kept(void)
{
    return atomic_load(&kept);
}

ls_status lsi_alloc_zeroed(void *out, size_t bytes, ls_memory_tag tag,
                           const char *what)
{
    void *block;
    LS_TRY(lsi_alloc(&block, bytes, tag, what));
    memset(block, 0, bytes);
    memcpy(out, &block, sizeof(block));
    return LS_OK;
}

void ls_free(void *memory)
{
    lsi_free(memory);
}

void lsi_free(void *block)
{
    if (block == NULL)
        return;
    block_header *header = (block_header *)block - 1;
    assert(header->magic == BLOCK_MAGIC);
    header->magic = 0; /* so that a second free is noticed */
    discount(header->bytes, header->tag);
    const lsi_memory_hook *const hook = lsi_memory_get_hook();
    if (header->kept)
        atomic_fetch_sub(&kept, header->bytes);
    if (hook != NULL && header->kept)
        hook->kept(-(int64_t)header->bytes);
    else if (hook != NULL)
        hook->given(block, header->bytes, header->tag);
    give_block(header, header->bytes);
}

ls_status lsi_alloc_larger(void *array, size_t used, size_t bytes,
                           ls_memory_tag tag, const char *what)
{
    void *before, *larger;
    memcpy(&before, array, sizeof(before));
    LS_TRY(lsi_alloc(&larger, bytes, tag, what));
    if (used > 0)
        memcpy(larger, before, used);
    lsi_free(before);
    memcpy(array, &larger, sizeof(larger));
    return LS_OK;
}

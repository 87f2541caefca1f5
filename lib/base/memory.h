/*
 * The accounting allocator. Blocks are 64-byte aligned and know their size
 * and tag. Thread-safe. The counters are public: see lockstep/profile.h.
 */
#ifndef LS_BASE_MEMORY_H
#define LS_BASE_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lockstep/profile.h"

/*
 * `out` is the address of a pointer of any type, which gets the block. The
 * block is the caller's and freed by lsi_free; undefined contents. 0 bytes is
 * allowed and gives a block. `what` names the owner in errors (LS_ERR_MEMORY,
 * LS_ERR_BUDGET). The pointer is not written on failure.
 */
ls_status lsi_alloc(void *out, size_t bytes, ls_memory_tag tag,
                    const char *what);
ls_status lsi_alloc_zeroed(void *out, size_t bytes, ls_memory_tag tag,
                           const char *what);
void lsi_free(void *block);

/*
 * Replaces the block that the pointer at `array` points to, or NULL, by one of
 * `bytes` that begins with the first `used` bytes.
 */
ls_status lsi_alloc_larger(void *array, size_t used, size_t bytes,
                           ls_memory_tag tag, const char *what);

/* Compiles only where `out` is the address of a pointer. */
#define LSI_POINTER_AT(out) ((void)sizeof(*(out) == NULL), (out))
#define lsi_alloc(out, ...) lsi_alloc(LSI_POINTER_AT(out), __VA_ARGS__)
#define lsi_alloc_zeroed(out, ...)                                             \
    lsi_alloc_zeroed(LSI_POINTER_AT(out), __VA_ARGS__)

/*
 * lsi_alloc of activations for a pool, which has to say itself when the block
 * is in use (lsi_memory_hook).
 */
ls_status lsi_alloc_kept(void **out, size_t bytes, const char *what);

/* Bytes of all such blocks, in use or not. */
size_t lsi_memory_kept(void);

/*
 * Checks that the machine has this number of bytes, as lsi_alloc does for a
 * large block. The error has both numbers. With a budget, the budget is checked
 * instead.
 */
ls_status lsi_memory_ask(size_t bytes, ls_memory_tag tag, const char *what);

/*
 * For memory that did not come from lsi_alloc (mappings): counts `bytes`
 * against the tag and the budget, or takes them back.
 */
ls_status lsi_memory_charge(size_t bytes, ls_memory_tag tag, const char *what);
void lsi_memory_discharge(size_t bytes, ls_memory_tag tag);

/* Whether such a charge would go through; nothing is counted. */
ls_status lsi_memory_try(size_t bytes, ls_memory_tag tag, const char *what);

/*
 * Bytes that would have been live with the last refused request since the last
 * call; 0: none was refused.
 */
size_t lsi_memory_take_refused(void);

/* Takes a discharge back, whatever the budget; no peak rises. */
void lsi_memory_undo_discharge(size_t bytes, ls_memory_tag tag);

/* Counts `bytes` that are live under another tag. */
void lsi_memory_move(size_t bytes, ls_memory_tag from, ls_memory_tag to);

/*
 * Callbacks of a recorder of memory. The allocator calls them from any thread,
 * without a lock. They must not allocate.
 */
typedef struct lsi_memory_hook {
    /*
     * A block of `bytes` is in use from here on; `of_pool`: it is a part of
     * what lsi_alloc_kept made. Called after the block is made, and `given`
     * before it is freed, so that nobody else has the address.
     */
    void (*taken)(const void *block, size_t bytes, ls_memory_tag tag,
                  const char *what, bool of_pool);
    void (*given)(const void *block, size_t bytes, ls_memory_tag tag);
    /* The memory of pools has changed by `bytes`; negative: less. */
    void (*kept)(int64_t bytes);
    /* Memory without an address has grown by `bytes`, or shrunk. */
    void (*counted)(int64_t bytes, ls_memory_tag tag);
    /*
     * An allocation is refused: writes the holders of most memory as words to
     * add to the error, or "".
     */
    void (*refused)(char *out, size_t room);
} lsi_memory_hook;

/* NULL: nobody records. */
extern _Atomic(const lsi_memory_hook *) lsi_memory_hooked;

static inline const lsi_memory_hook *lsi_memory_get_hook(void)
{
    return atomic_load_explicit(&lsi_memory_hooked, memory_order_relaxed);
}

#endif

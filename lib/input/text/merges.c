#include "input/text/merges.h"

#include <assert.h>

#include "base/error.h"
#include "base/memory.h"
#include "input/text/vocabulary.h"

/* Up to here looking through all pairs is quicker than a heap. */
enum { FEW = 48 };

ls_status lsi_merges_new(lsi_merges *merges, size_t n)
{
    size_t slots = 64;
    void *block = NULL;
    while (slots < 2 * n)
        slots *= 2;
    LS_TRY(lsi_alloc(&block, slots * sizeof(lsi_merge), LS_MEMORY_DATA,
                     "a tokenizer's merges"));
    *merges = (lsi_merges){.slots = block, .mask = slots - 1};
    for (size_t i = 0; i < slots; i++)
        merges->slots[i].whole = LSI_NO_TOKEN;
    return LS_OK;
}

void lsi_merges_free(lsi_merges *merges)
{
    lsi_free(merges->slots);
    *merges = (lsi_merges){.n = 0};
}

/* The slot of the pair, or the free one where it belongs. */
static inline lsi_merge *slot_of(const lsi_merges *merges, uint32_t left,
                                 uint32_t right)
{
    const uint64_t pair = (uint64_t)left << 32 | right;
    size_t i = (pair * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
    for (;; i++) {
        lsi_merge *const slot = &merges->slots[i & merges->mask];
        if (slot->whole == LSI_NO_TOKEN ||
            (slot->left == left && slot->right == right))
            return slot;
    }
}

void lsi_merges_add(lsi_merges *merges, const lsi_merge *merge)
{
    lsi_merge *const slot = slot_of(merges, merge->left, merge->right);
    merges->n += slot->whole == LSI_NO_TOKEN;
    *slot = *merge;
    assert(2 * merges->n <= merges->mask + 1);
}

const lsi_merge *lsi_merges_find(const lsi_merges *merges, uint32_t left,
                                 uint32_t right)
{
    const lsi_merge *const slot = slot_of(merges, left, right);
    return slot->whole == LSI_NO_TOKEN ? NULL : slot;
}

void lsi_merge_scratch_free(lsi_merge_scratch *scratch)
{
    lsi_free(scratch->block);
    *scratch = (lsi_merge_scratch){.bytes = 0};
}

/* ---- few tokens ---------------------------------------------------------- */

static uint32_t rank_of(const lsi_merges *merges, const uint32_t *ids)
{
    const lsi_merge *const merge = lsi_merges_find(merges, ids[0], ids[1]);
    return merge != NULL ? merge->rank : UINT32_MAX;
}

static size_t apply_to_few(const lsi_merges *merges, uint32_t *ids, size_t n)
{
    uint32_t ranks[FEW]; /* of the pair that begins there */
    assert(n <= FEW);
    for (size_t i = 0; i + 1 < n; i++)
        ranks[i] = rank_of(merges, ids + i);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (ranks[i] < ranks[best])
                best = i;
        if (ranks[best] == UINT32_MAX)
            break;
        ids[best] = lsi_merges_find(merges, ids[best], ids[best + 1])->whole;
        n--;
        for (size_t i = best + 1; i < n; i++) {
            ids[i] = ids[i + 1];
            ranks[i - 1] = ranks[i];
        }
        /* The loop has moved the pairs behind; two have a new member. */
        if (best + 1 < n)
            ranks[best] = rank_of(merges, ids + best);
        if (best > 0)
            ranks[best - 1] = rank_of(merges, ids + best - 1);
    }
    return n;
}

/* ---- many ---------------------------------------------------------------- */

/* A merge that was possible when it was put on the heap. */
typedef struct candidate {
    uint64_t order; /* rank, then place */
    uint32_t left, right;
} candidate;

/* A list of tokens by the place of their first, and a heap. */
typedef struct queue {
    const lsi_merges *merges;
    uint32_t *ids;
    uint32_t *before, *after; /* n is the end */
    size_t n, n_heap;
    candidate *heap; /* at most 3n: n at first, two for each of the merges */
} queue;

static void sink(queue *q, size_t i)
{
    const candidate moved = q->heap[i];
    for (size_t child = 2 * i + 1; child < q->n_heap; child = 2 * i + 1) {
        if (child + 1 < q->n_heap &&
            q->heap[child + 1].order < q->heap[child].order)
            child++;
        if (q->heap[child].order >= moved.order)
            break;
        q->heap[i] = q->heap[child];
        i = child;
    }
    q->heap[i] = moved;
}

static void rise(queue *q, size_t i)
{
    const candidate moved = q->heap[i];
    for (; i > 0 && q->heap[(i - 1) / 2].order > moved.order; i = (i - 1) / 2)
        q->heap[i] = q->heap[(i - 1) / 2];
    q->heap[i] = moved;
}

/* Appends the pair that begins at a place, if it can be merged. */
static bool append(queue *q, size_t at)
{
    const uint32_t left = q->ids[at], right = q->ids[q->after[at]];
    const lsi_merge *const merge = lsi_merges_find(q->merges, left, right);
    if (merge == NULL)
        return false;
    assert(q->n_heap < 3 * q->n);
    q->heap[q->n_heap++] =
        (candidate){(uint64_t)merge->rank << 32 | at, left, right};
    return true;
}

static void push(queue *q, size_t at)
{
    if (append(q, at))
        rise(q, q->n_heap - 1);
}

static candidate pop(queue *q)
{
    assert(q->n_heap > 0);
    const candidate top = q->heap[0];
    q->heap[0] = q->heap[--q->n_heap];
    if (q->n_heap > 0)
        sink(q, 0);
    return top;
}

static void merge_at(queue *q, size_t at, uint32_t whole)
{
    const uint32_t gone = q->after[at], next = q->after[gone];
    q->ids[at] = whole;
    q->ids[gone] = LSI_NO_TOKEN;
    q->after[at] = next;
    if (next < q->n) {
        q->before[next] = (uint32_t)at;
        push(q, at);
    }
    if (at > 0)
        push(q, q->before[at]);
}

static size_t merge_all(queue *q)
{
    size_t left = 0;
    for (size_t i = 0; i < q->n; i++) {
        q->before[i] = (uint32_t)i - 1;
        q->after[i] = (uint32_t)i + 1;
    }
    for (size_t i = 0; i + 1 < q->n; i++)
        (void)append(q, i);
    for (size_t i = q->n_heap / 2; i-- > 0;)
        sink(q, i);
    while (q->n_heap > 0) {
        const candidate top = pop(q);
        const size_t at = (uint32_t)top.order;
        if (q->ids[at] != top.left || q->after[at] >= q->n ||
            q->ids[q->after[at]] != top.right)
            continue;
        merge_at(q, at, lsi_merges_find(q->merges, top.left, top.right)->whole);
    }
    for (size_t i = 0; i < q->n; i = q->after[i])
        q->ids[left++] = q->ids[i];
    return left;
}

static ls_status apply_to_many(const lsi_merges *merges,
                               lsi_merge_scratch *scratch, uint32_t *ids,
                               size_t *n)
{
    const size_t bytes = *n * (3 * sizeof(candidate) + 2 * sizeof(uint32_t));
    if (*n >= UINT32_MAX)
        return lsi_fail(
            LS_ERR_FORMAT,
            "cannot encode a word of %zu characters: it is too long", *n);
    if (scratch->bytes < bytes) {
        lsi_merge_scratch_free(scratch);
        LS_TRY(lsi_alloc(&scratch->block, bytes, LS_MEMORY_DATA,
                         "merging a long word"));
        scratch->bytes = bytes;
    }
    candidate *const heap = scratch->block;
    uint32_t *const before = (void *)(heap + 3 * *n);
    queue q = {.merges = merges,
               .ids = ids,
               .before = before,
               .after = before + *n,
               .n = *n,
               .heap = heap};
    *n = merge_all(&q);
    return LS_OK;
}

ls_status lsi_merges_apply(const lsi_merges *merges, lsi_merge_scratch *scratch,
                           uint32_t *ids, size_t *n)
{
    if (*n > FEW)
        return apply_to_many(merges, scratch, ids, n);
    *n = apply_to_few(merges, ids, *n);
    return LS_OK;
}

#include "input/text/pairs.h"

#include <assert.h>

#include "base/error.h"
#include "base/memory.h"

void lsi_pairs_free(lsi_pairs *pairs)
{
    lsi_free(pairs->all);
    lsi_free(pairs->slots);
    lsi_free(pairs->places.at);
    lsi_free(pairs->heap);
    lsi_free(pairs->symbols.at);
    lsi_free(pairs->words);
    lsi_free(pairs->grown.at);
    *pairs = (lsi_pairs){.n = 0};
}

/* ---- the table ----------------------------------------------------------- */

static size_t hash_of(uint32_t left, uint32_t right)
{
    return (((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15)) >>
           29;
}

/* The slot of the pair, or the free one where it belongs. */
static uint32_t *slot_of(const lsi_pairs *p, uint32_t left, uint32_t right)
{
    for (size_t at = hash_of(left, right);; at++) {
        uint32_t *const slot = &p->slots[at & p->mask];
        if (*slot == 0 || (p->all[*slot - 1].left == left &&
                           p->all[*slot - 1].right == right))
            return slot;
    }
}

/* Doubles a block of `used` elements. */
static ls_status enlarge(void *block, size_t used, size_t *room, size_t size)
{
    const size_t wish = *room == 0 ? 1024 : 2 * *room;
    LS_TRY(lsi_alloc_larger(block, used * size, wish * size, LS_MEMORY_DATA,
                            "counts of token pairs"));
    *room = wish;
    return LS_OK;
}

static ls_status grow(lsi_pairs *p)
{
    void *slots = NULL;
    if (p->n >= UINT32_MAX / 2)
        return lsi_too_much_text("pairs of tokens");
    LS_TRY(enlarge(&p->all, p->n, &p->room, sizeof *p->all));
    LS_TRY(lsi_alloc_zeroed(&slots, 2 * p->room * sizeof *p->slots,
                            LS_MEMORY_DATA, "counts of token pairs"));
    lsi_free(p->slots);
    p->slots = slots;
    p->mask = 2 * p->room - 1;
    for (size_t i = 0; i < p->n; i++)
        *slot_of(p, p->all[i].left, p->all[i].right) = (uint32_t)i + 1;
    return LS_OK;
}

/* Index of the pair, which is there afterwards. */
static ls_status find(lsi_pairs *p, uint32_t left, uint32_t right,
                      uint32_t *index)
{
    if (p->n == p->room)
        LS_TRY(grow(p));
    uint32_t *const slot = slot_of(p, left, right);
    assert(p->n < p->room && p->mask + 1 == 2 * p->room);
    if (*slot == 0) {
        p->all[p->n] = (lsi_pair){.left = left, .right = right};
        *slot = (uint32_t)++p->n;
    }
    *index = *slot - 1;
    return LS_OK;
}

/* ---- the heap ------------------------------------------------------------ */

static bool before(const lsi_ranked_pair *a, const lsi_ranked_pair *b)
{
    if (a->count != b->count)
        return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static void sink(lsi_pairs *p, size_t i)
{
    lsi_ranked_pair *const heap = p->heap;
    const lsi_ranked_pair moved = heap[i];
    for (size_t child = 2 * i + 1; child < p->n_heap; child = 2 * i + 1) {
        if (child + 1 < p->n_heap && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &moved))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moved;
}

static ls_status push(lsi_pairs *p, uint32_t index)
{
    const lsi_pair *const pair = &p->all[index];
    const lsi_ranked_pair moved = {pair->count, pair->left, pair->right, index};
    if (p->n_heap == p->heap_room)
        LS_TRY(enlarge(&p->heap, p->n_heap, &p->heap_room, sizeof *p->heap));
    size_t i = p->n_heap++;
    for (; i > 0 && before(&moved, &p->heap[(i - 1) / 2]); i = (i - 1) / 2)
        p->heap[i] = p->heap[(i - 1) / 2];
    p->heap[i] = moved;
    return LS_OK;
}

static void pop(lsi_pairs *p)
{
    assert(p->n_heap > 0);
    p->heap[0] = p->heap[--p->n_heap];
    if (p->n_heap > 0)
        sink(p, 0);
}

const lsi_pair *lsi_pairs_best(lsi_pairs *pairs, int64_t least)
{
    while (pairs->n_heap > 0) {
        lsi_ranked_pair *const top = &pairs->heap[0];
        const lsi_pair *const pair = &pairs->all[top->index];
        if (top->count == pair->count)
            return pair->count >= least ? pair : NULL;
        /* Its count has shrunk since, or another entry knows a larger one. */
        if (top->count > pair->count && pair->count > 0) {
            top->count = pair->count;
            sink(pairs, 0);
        } else {
            pop(pairs);
        }
    }
    return NULL;
}

/* ---- counting ------------------------------------------------------------ */

/* Adds `count`, which may be negative, to the count of a pair in a word. */
static ls_status change(lsi_pairs *p, uint32_t left, uint32_t right,
                        uint32_t word, int64_t count)
{
    uint32_t index;
    LS_TRY(find(p, left, right, &index));
    lsi_pair *const pair = &p->all[index];
    pair->count += count;
    if (count < 0)
        return LS_OK;
    if (pair->places == 0 || p->places.at[pair->places] != word) {
        if (p->places.n >= UINT32_MAX - 1)
            return lsi_too_much_text("pairs of tokens");
        LS_TRY(lsi_ids_push(&p->places, word));
        LS_TRY(lsi_ids_push(&p->places, pair->places));
        pair->places = (uint32_t)p->places.n - 2;
    }
    if (pair->round == p->round)
        return LS_OK;
    pair->round = p->round;
    return lsi_ids_push(&p->grown, index);
}

/* Puts pairs that have grown onto the heap, and begins another round. */
static ls_status end_round(lsi_pairs *p)
{
    for (size_t i = 0; i < p->grown.n; i++)
        LS_TRY(push(p, p->grown.at[i]));
    p->grown.n = 0;
    p->round++;
    return LS_OK;
}

static ls_status merge_word(lsi_pairs *p, uint32_t word, const uint32_t pair[2],
                            uint32_t whole)
{
    lsi_spelling *const w = &p->words[word];
    uint32_t *const s = p->symbols.at + w->begin;
    uint32_t n = 0; /* that are written */
    for (uint32_t i = 0; i < w->n; i++) {
        if (s[i] != pair[0] || i + 1 == w->n || s[i + 1] != pair[1]) {
            s[n++] = s[i];
            continue;
        }
        if (n > 0) {
            LS_TRY(change(p, s[n - 1], pair[0], word, -w->count));
            LS_TRY(change(p, s[n - 1], whole, word, w->count));
        }
        if (i + 2 < w->n) {
            LS_TRY(change(p, pair[1], s[i + 2], word, -w->count));
            LS_TRY(change(p, whole, s[i + 2], word, w->count));
        }
        s[n++] = whole;
        i++;
    }
    assert(n <= w->n);
    w->n = n;
    return LS_OK;
}

ls_status lsi_pairs_merge(lsi_pairs *pairs, uint32_t left, uint32_t right,
                          uint32_t whole)
{
    lsi_pairs *const p = pairs;
    const uint32_t both[] = {left, right};
    uint32_t index;
    LS_TRY(find(p, left, right, &index));
    uint32_t link = p->all[index].places;
    p->all[index].places = 0;
    while (link != 0) {
        const uint32_t word = p->places.at[link];
        LS_TRY(merge_word(p, word, both, whole));
        link = p->places.at[link + 1];
    }
    p->all[index].count = 0; /* none is left, whatever the changes say */
    return end_round(p);
}

/* ---- making -------------------------------------------------------------- */

static ls_status spell(lsi_pairs *p, const lsi_word_counts *words,
                       const uint32_t bytes[256])
{
    LS_TRY(lsi_alloc(&p->words, words->n * sizeof *p->words, LS_MEMORY_DATA,
                     "words of the training texts"));
    p->n_words = words->n;
    LS_TRY(lsi_ids_reserve(&p->symbols, words->pool.n));
    for (size_t i = 0; i < words->n; i++) {
        const lsi_counted *const word = &words->words[i];
        p->words[i] = (lsi_spelling){p->symbols.n, word->n, word->count};
        for (uint32_t k = 0; k < word->n; k++)
            p->symbols.at[p->symbols.n++] =
                bytes[words->pool.at[word->begin + k]];
    }
    return LS_OK;
}

ls_status lsi_pairs_new(lsi_pairs *out, const lsi_word_counts *words,
                        const uint32_t bytes[256])
{
    *out = (lsi_pairs){.round = 1};
    if (words->n >= UINT32_MAX)
        return lsi_too_much_text("different words");
    LS_TRY(spell(out, words, bytes));
    LS_TRY(lsi_ids_push(&out->places, 0)); /* 0 is not a link */
    LS_TRY(lsi_ids_push(&out->places, 0));
    for (size_t i = 0; i < out->n_words; i++) {
        const lsi_spelling *const word = &out->words[i];
        const uint32_t *const s = out->symbols.at + word->begin;
        for (uint32_t k = 0; k + 1 < word->n; k++)
            LS_TRY(change(out, s[k], s[k + 1], (uint32_t)i, word->count));
    }
    return end_round(out);
}

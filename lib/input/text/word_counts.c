#include "input/text/word_counts.h"

#include <stdatomic.h>
#include <stdio.h>

#include "array/compute/threads.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "comm/api/outcome.h"

ls_status lsi_too_much_text(const char *what)
{
    return lsi_fail(LS_ERR_MEMORY,
                    "the training texts have too many %s; train on less text",
                    what);
}

/* ---- a table ------------------------------------------------------------- */

void lsi_word_counts_free(lsi_word_counts *counts)
{
    lsi_free(counts->pool.at);
    lsi_free(counts->words);
    lsi_free(counts->slots);
    *counts = (lsi_word_counts){.n = 0};
}

static ls_status grow(lsi_word_counts *c)
{
    const size_t room = c->room == 0 ? 1024 : 2 * c->room;
    void *slots = NULL;
    if (room >= UINT32_MAX)
        return lsi_too_much_text("different words");
    LS_TRY(lsi_alloc_larger(&c->words, c->n * sizeof *c->words,
                            room * sizeof *c->words, LS_MEMORY_DATA,
                            "word counts"));
    LS_TRY(lsi_alloc_zeroed(&slots, 2 * room * sizeof *c->slots, LS_MEMORY_DATA,
                            "word counts"));
    lsi_free(c->slots);
    c->slots = slots;
    c->room = room;
    c->mask = 2 * room - 1;
    for (size_t i = 0; i < c->n; i++) {
        size_t at = c->words[i].hash;
        while (c->slots[at & c->mask] != 0)
            at++;
        c->slots[at & c->mask] = (uint32_t)i + 1;
    }
    return LS_OK;
}

static ls_status add(lsi_word_counts *counts, lsi_text word, int64_t count)
{
    lsi_word_counts *const c = counts;
    uint64_t hash = lsi_hash(LSI_HASH_START, word.at, word.n);
    hash ^= hash >> 32;
    if (word.n > UINT32_MAX)
        return lsi_fail(LS_ERR_FORMAT,
                        "a word of the training texts has %zu bytes; at most "
                        "%u bytes are supported",
                        word.n, UINT32_MAX);
    if (c->n == c->room)
        LS_TRY(grow(c));
    size_t at = (uint32_t)hash;
    for (; c->slots[at & c->mask] != 0; at++) {
        lsi_counted *const it = &c->words[c->slots[at & c->mask] - 1];
        if (it->hash == (uint32_t)hash &&
            lsi_text_equal(lsi_bytes_piece(&c->pool, it->begin, it->n), word)) {
            it->count += count;
            return LS_OK;
        }
    }
    LS_TRY(lsi_bytes_add(&c->pool, word.at, word.n));
    c->words[c->n] = (lsi_counted){.begin = c->pool.n - word.n,
                                   .n = (uint32_t)word.n,
                                   .hash = (uint32_t)hash,
                                   .count = count};
    c->slots[at & c->mask] = (uint32_t)++c->n;
    return LS_OK;
}

static ls_status add_all(lsi_word_counts *out, const lsi_word_counts *from)
{
    for (size_t i = 0; i < from->n; i++) {
        const lsi_counted *const it = &from->words[i];
        LS_TRY(add(out, lsi_bytes_piece(&from->pool, it->begin, it->n),
                   it->count));
    }
    return LS_OK;
}

/* ---- threads ------------------------------------------------------------- */

typedef struct counting {
    const lsi_corpus *corpus;
    const struct ls_tokenizer *t;
    lsi_encoders encoders;
    lsi_word_counts *each; /* of each thread */
    size_t rank, ranks;
    atomic_int status; /* the first error */
    lsi_error error;
} counting;

static ls_status count_word(void *context, lsi_text word)
{
    return add(context, word, 1);
}

static ls_status count_block(counting *c, size_t task, int worker)
{
    lsi_corpus_part block;
    LS_TRY(lsi_corpus_read_block(c->corpus, c->t, c->rank + task * c->ranks,
                                 &block));
    return lsi_text_words(&c->encoders, worker, block.text, block.first,
                          count_word, &c->each[worker]);
}

static void count_task(void *context, size_t task, int worker)
{
    counting *const c = context;
    int none = LS_OK;
    if (atomic_load(&c->status) != LS_OK)
        return;
    const ls_status status = count_block(c, task, worker);
    if (status != LS_OK &&
        atomic_compare_exchange_strong(&c->status, &none, (int)status))
        (void)lsi_error_keep(&c->error, status);
}

static ls_status count_own(counting *c, lsi_word_counts *out)
{
    const size_t blocks = c->corpus->blocks;
    LS_TRY(lsi_encoders_new(&c->encoders, c->t, SIZE_MAX));
    LS_TRY(lsi_alloc_zeroed(&c->each,
                            (size_t)c->encoders.n * sizeof(lsi_word_counts),
                            LS_MEMORY_DATA, "word counts"));
    if (c->rank < blocks)
        lsi_parallel_tasks((blocks - c->rank - 1) / c->ranks + 1, count_task,
                           c);
    LS_TRY(lsi_error_again(&c->error));
    for (int i = 0; i < c->encoders.n; i++)
        LS_TRY(add_all(out, &c->each[i]));
    return LS_OK;
}

/* ---- ranks --------------------------------------------------------------- */

/* A word is its count, its length and its bytes. */
static ls_status pack(const lsi_word_counts *counts, lsi_bytes *out)
{
    for (size_t i = 0; i < counts->n; i++) {
        const lsi_counted *const it = &counts->words[i];
        LS_TRY(lsi_bytes_add(out, &it->count, sizeof it->count));
        LS_TRY(lsi_bytes_add(out, &it->n, sizeof it->n));
        LS_TRY(lsi_bytes_add(out, counts->pool.at + it->begin, it->n));
    }
    return LS_OK;
}

static ls_status unpack(lsi_text all, lsi_word_counts *out)
{
    for (size_t at = 0; at < all.n;) {
        int64_t count;
        uint32_t n;
        memcpy(&count, all.at + at, sizeof count);
        memcpy(&n, all.at + at + sizeof count, sizeof n);
        at += sizeof count + sizeof n;
        LS_TRY(add(out, (lsi_text){all.at + at, n}, count));
        at += n;
    }
    return LS_OK;
}

/* Replaces this rank's counts by those of all. */
static ls_status share(ls_group *group, lsi_word_counts *counts)
{
    const size_t ranks = (size_t)ls_group_size(group);
    lsi_bytes own = {.n = 0};
    void *sizes = NULL, *all = NULL;
    size_t bytes = 0;
    bool agreed = false;
    ls_status status = pack(counts, &own);
    if (status == LS_OK)
        status = lsi_alloc(&sizes, ranks * sizeof(size_t), LS_MEMORY_DATA,
                           "sizes of word counts");
    status = lsi_share_outcome(group, status, &agreed);
    if (status == LS_OK)
        status = ls_all_gather_bytes(group, own.at, own.n, sizes, &all);
    lsi_free(own.at);
    for (size_t r = 0; status == LS_OK && sizes != NULL && r < ranks; r++)
        bytes += ((const size_t *)sizes)[r];
    lsi_word_counts_free(counts);
    if (status == LS_OK)
        status = unpack((lsi_text){all, bytes}, counts);
    ls_free(all);
    lsi_free(sizes);
    return status;
}

ls_status lsi_word_counts_of(lsi_word_counts *out, ls_group *group,
                             const struct ls_tokenizer *t,
                             const lsi_corpus *corpus)
{
    counting c = {.corpus = corpus,
                  .t = t,
                  .rank = (size_t)ls_group_rank(group),
                  .ranks = (size_t)ls_group_size(group)};
    bool agreed = false;
    ls_status status = count_own(&c, out);
    for (int i = 0; c.each != NULL && i < c.encoders.n; i++)
        lsi_word_counts_free(&c.each[i]);
    lsi_free(c.each);
    lsi_encoders_free(&c.encoders);
    LS_TRY(lsi_share_outcome(group, status, &agreed));
    if (ls_group_size(group) == 1)
        return LS_OK;
    return lsi_share_outcome(group, share(group, out), &agreed);
}

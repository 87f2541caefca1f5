#include "input/text/token_file.h"

#include <unistd.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "comm/api/outcome.h"
#include "input/text/corpus.h"

enum { HEADER_WORDS = 256, COUNT_WORD = 2, PIECE = 1 << 15 };

static const uint32_t headers[2][2] = {{20240520, 1}, {20240801, 7}};

typedef struct work {
    ls_group *group;
    const lsi_tokenize_job *job;
    lsi_corpus corpus;
    lsi_encoders encoders;
    lsi_ids ids;          /* of this rank's block */
    lsi_ids others;       /* rank 0: of another's */
    lsi_atomic_file file; /* rank 0 */
    bool writing;         /* it is open */
    size_t done;          /* blocks that are encoded */
    lsi_tokenize_result result;
} work;

/* ---- rank 0 writes ------------------------------------------------------- */

static ls_status open_file(work *w)
{
    uint32_t header[HEADER_WORDS] = {0};
    memcpy(header, headers[w->result.width == 4], sizeof headers[0]);
    LS_TRY(lsi_make_parents(w->job->out));
    LS_TRY(lsi_atomic_file_open(&w->file, w->job->out));
    w->writing = true;
    return lsi_atomic_file_write(&w->file, header, sizeof header);
}

static ls_status check_count(const work *w)
{
    const uint32_t most = w->job->most > 0 ? w->job->most : UINT32_MAX;
    if (w->result.tokens <= most)
        return LS_OK;
    return lsi_fail(
        LS_ERR_FORMAT,
        "the texts have more than %u tokens (reached after %zu of %zu MB). A "
        "file in llm.c's format cannot hold more. Divide the texts, write one "
        "file per part, and train on the folder of these files",
        most, w->corpus.bytes / w->corpus.blocks * w->done / 1000000,
        w->corpus.bytes / 1000000);
}

static ls_status write_ids(work *w, const uint32_t *ids, size_t n)
{
    uint16_t narrow[PIECE];
    w->result.tokens += n;
    LS_TRY(check_count(w));
    if (w->result.width == 4)
        return lsi_atomic_file_write(&w->file, ids, n * sizeof *ids);
    for (size_t at = 0; at < n; at += PIECE) {
        const size_t some = n - at < PIECE ? n - at : PIECE;
        for (size_t i = 0; i < some; i++)
            narrow[i] = (uint16_t)ids[at + i];
        LS_TRY(lsi_atomic_file_write(&w->file, narrow, some * sizeof *narrow));
    }
    return LS_OK;
}

/* The number of tokens is known at the end only. */
static ls_status finish_file(work *w)
{
    const uint32_t count = (uint32_t)w->result.tokens;
    if (pwrite(w->file.fd, &count, sizeof count, COUNT_WORD * sizeof count) !=
        (ssize_t)sizeof count)
        return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", w->job->out);
    w->writing = false;
    return lsi_atomic_file_commit(&w->file);
}

/* ---- rounds -------------------------------------------------------------- */

/* Leaves the tokens of a block in w->ids. */
static ls_status encode_block(work *w, size_t index)
{
    const struct ls_tokenizer *const t = w->job->tokenizer;
    lsi_corpus_part block;
    w->ids.n = 0;
    if (index >= w->corpus.blocks)
        return LS_OK;
    LS_TRY(lsi_corpus_read_block(&w->corpus, t, index, &block));
    if (block.first && w->job->special)
        LS_TRY(lsi_ids_add(&w->ids, t->before, t->n_before));
    LS_TRY(lsi_encode(&w->encoders, block.text, block.first, &w->ids));
    if (!block.last)
        return LS_OK;
    if (w->job->special)
        LS_TRY(lsi_ids_add(&w->ids, t->after, t->n_after));
    return w->job->end_tokens ? lsi_ids_push(&w->ids, (uint32_t)t->end) : LS_OK;
}

/* The group counts elements of types with a sign. */
static ls_status send_ids(work *w)
{
    const int64_t n = (int64_t)w->ids.n;
    LS_TRY(ls_send(w->group, &n, 1, LS_I64, 0, 0));
    return ls_send(w->group, w->ids.at, w->ids.n, LS_I32, 0, 0);
}

/* Writes what all have, in the order of the ranks; `status` of writing. */
static ls_status collect(work *w, ls_status *status)
{
    *status = write_ids(w, w->ids.at, w->ids.n);
    for (int r = 1; r < ls_group_size(w->group); r++) {
        int64_t n = 0;
        LS_TRY(ls_recv(w->group, &n, 1, LS_I64, r, 0));
        w->others.n = 0;
        LS_TRY(lsi_ids_reserve(&w->others, (size_t)n));
        LS_TRY(ls_recv(w->group, w->others.at, (size_t)n, LS_I32, r, 0));
        if (*status == LS_OK)
            *status = write_ids(w, w->others.at, (size_t)n);
    }
    return LS_OK;
}

static void report_progress(const work *w)
{
    if (w->job->progress != NULL && ls_group_rank(w->group) == 0)
        w->job->progress(w->job->context,
                         w->corpus.bytes / w->corpus.blocks * w->done,
                         w->corpus.bytes);
}

/* Each rank a block, until there are no more. */
static ls_status run_rounds(work *w)
{
    const size_t ranks = (size_t)ls_group_size(w->group);
    const size_t rank = (size_t)ls_group_rank(w->group);
    ls_status written = LS_OK; /* by rank 0, in the round before */
    bool agreed = false;
    for (size_t first = 0; first < w->corpus.blocks; first += ranks) {
        if (written == LS_OK)
            written = encode_block(w, first + rank);
        LS_TRY(lsi_share_outcome(w->group, written, &agreed));
        w->done =
            first + ranks < w->corpus.blocks ? first + ranks : w->corpus.blocks;
        if (rank == 0)
            LS_TRY(collect(w, &written));
        else
            LS_TRY(send_ids(w));
        report_progress(w);
    }
    if (rank == 0 && written == LS_OK)
        written = finish_file(w);
    return lsi_share_outcome(w->group, written, &agreed);
}

/* ---- all ----------------------------------------------------------------- */

static ls_status prepare(work *w)
{
    const struct ls_tokenizer *const t = w->job->tokenizer;
    if (w->job->end_tokens && t->end < 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the tokenizer has no end-of-text token, such as "
                        "<|endoftext|>. Train it with that special token, or "
                        "write the file without end-of-text tokens");
    LS_TRY(lsi_encoders_new(&w->encoders, t, SIZE_MAX));
    w->result.width = t->vocabulary.n > UINT16_MAX + 1 ? 4 : 2;
    w->result.bytes = w->corpus.bytes;
    return ls_group_rank(w->group) == 0 ? open_file(w) : LS_OK;
}

static ls_status write_token_file(work *w)
{
    bool agreed = false;
    LS_TRY(lsi_corpus_open(&w->corpus, w->group, w->job->paths, w->job->n));
    LS_TRY(lsi_share_outcome(w->group, prepare(w), &agreed));
    LS_TRY(run_rounds(w));
    int64_t tokens = (int64_t)w->result.tokens;
    LS_TRY(ls_broadcast(w->group, &tokens, 1, LS_I64, 0));
    w->result.tokens = (uint64_t)tokens;
    return LS_OK;
}

ls_status lsi_tokenize_files(ls_group *group, const lsi_tokenize_job *job,
                             lsi_tokenize_result *out)
{
    work w = {.group = group, .job = job};
    const ls_status status = write_token_file(&w);
    if (w.writing)
        lsi_atomic_file_abandon(&w.file);
    lsi_encoders_free(&w.encoders);
    lsi_free(w.ids.at);
    lsi_free(w.others.at);
    lsi_corpus_close(&w.corpus);
    if (status == LS_OK)
        *out = w.result;
    return status;
}

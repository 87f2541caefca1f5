#include "observe/memory_record.h"

#include <inttypes.h>
#include <pthread.h>
#include <unwind.h>

#include "observe/memory_book.h"

enum { PENDING = 128, PHASES = 16 };

static lsi_memory_book *const book = &lsi_memory_books;

/* What a thread does now; `of` is the recording that it belongs to. */
typedef struct context {
    uint32_t of;
    uint32_t path, operation, phase;
    uint32_t outer_phases[PHASES];
    unsigned depth; /* of phases */
    unsigned n_pending;
    struct {
        const void *block;
        uint64_t id;
    } pending[PENDING]; /* of a tape's pool, since an operation ended */
} context;

static _Thread_local context own;

/* Under the lock. */
static context *own_context(void)
{
    if (own.of != book->recording)
        own = (context){.of = book->recording};
    return &own;
}

typedef struct frames {
    uintptr_t pc[LSI_MEMORY_FRAMES];
    size_t n;
} frames;

static _Unwind_Reason_Code see(struct _Unwind_Context *at, void *to)
{
    frames *const f = to;
    int before = 0;
    const uintptr_t pc = (uintptr_t)_Unwind_GetIPInfo(at, &before);
    if (f->n == LSI_MEMORY_FRAMES || pc == 0)
        return _URC_END_OF_STACK;
    f->pc[f->n++] = pc - (before == 0); /* in the call, not behind it */
    return _URC_NO_REASON;
}

/* ---- what is taken and given back ---------------------------------------- */

static void take(const void *block, size_t bytes, ls_memory_tag tag,
                 lsi_memory_held value)
{
    context *const c = own_context();
    value.block = block;
    value.id = ++book->last_id;
    value.bytes = bytes;
    value.tag = tag;
    value.owner.phase = c->phase;
    value.owner.path = c->path;
    value.owner.operation = c->operation;
    const lsi_memory_held *const r = lsi_memory_book_add(value);
    if (r == NULL)
        return;
    book->live[tag] += (int64_t)bytes;
    book->kept_in_use += r->kept ? bytes : 0;
    lsi_memory_book_note_peak();
    if (book->lines != NULL)
        lsi_memory_book_tell(book->lines, r, lsi_memory_book_time());
    if (r->kept && c->n_pending < PENDING) {
        c->pending[c->n_pending].block = block;
        c->pending[c->n_pending++].id = r->id;
    }
    lsi_memory_book_look(false);
}

static void note_taken(const void *block, size_t bytes, ls_memory_tag tag,
                       const char *what, bool of_pool)
{
    frames f = {.n = 0};
    _Unwind_Backtrace(see, &f);
    pthread_mutex_lock(&book->lock);
    if (lsi_memory_is_recorded()) {
        const lsi_memory_held value = {
            .kept = of_pool,
            .owner = {.what = lsi_memory_book_name(what, ""),
                      .stack = lsi_memory_book_number(LSI_MEMORY_STACK, f.pc,
                                                      f.n * sizeof(*f.pc))}};
        take(block, bytes, tag, value);
    }
    pthread_mutex_unlock(&book->lock);
}

static void count(int64_t bytes, ls_memory_tag tag)
{
    book->live[tag] += bytes;
    book->anonymous[tag] += bytes;
    if (book->lines != NULL)
        lsi_memory_lines_event(book->lines, "c %" PRIu64 " %d %" PRId64 "\n",
                               lsi_memory_book_time(), (int)tag, bytes);
}

/*
 * Bytes of a block that nobody has told of, which was there before the
 * recording, are subtracted from its kind.
 */
static void note_given(const void *block, size_t bytes, ls_memory_tag tag)
{
    pthread_mutex_lock(&book->lock);
    lsi_memory_held **const at =
        lsi_memory_is_recorded() ? lsi_memory_book_find(block) : NULL;
    if (at != NULL) {
        const lsi_memory_held *const r = *at;
        book->live[r->tag] -= (int64_t)r->bytes;
        book->kept_in_use -= r->kept ? r->bytes : 0;
        if (book->lines != NULL)
            lsi_memory_lines_event(book->lines, "- %" PRIu64 " %" PRIu64 "\n",
                                   r->id, lsi_memory_book_time());
        lsi_memory_book_remove(at);
    } else if (bytes > 0 && lsi_memory_is_recorded()) {
        count(-(int64_t)bytes, tag);
    }
    pthread_mutex_unlock(&book->lock);
}

static void note_kept(int64_t bytes)
{
    pthread_mutex_lock(&book->lock);
    if (lsi_memory_is_recorded()) {
        book->kept += (size_t)bytes;
        if (book->lines != NULL)
            lsi_memory_lines_event(book->lines, "k %" PRIu64 " %zu\n",
                                   lsi_memory_book_time(), book->kept);
    }
    pthread_mutex_unlock(&book->lock);
}

static void note_counted(int64_t bytes, ls_memory_tag tag)
{
    pthread_mutex_lock(&book->lock);
    if (lsi_memory_is_recorded() && bytes != 0) {
        count(bytes, tag);
        lsi_memory_book_note_peak();
        lsi_memory_book_look(false);
    }
    pthread_mutex_unlock(&book->lock);
}

lsi_memory_use lsi_memory_in_use(void)
{
    lsi_memory_use use = {0, 0};
    pthread_mutex_lock(&book->lock);
    if (lsi_memory_is_recorded())
        use = (lsi_memory_use){lsi_memory_book_in_use(), book->most_in_use};
    pthread_mutex_unlock(&book->lock);
    return use;
}

void lsi_memory_reset_in_use(void)
{
    pthread_mutex_lock(&book->lock);
    book->most_in_use = lsi_memory_book_in_use();
    pthread_mutex_unlock(&book->lock);
}

/* ---- where this thread is ------------------------------------------------ */

void lsi_memory_enter_range(const char *name)
{
    pthread_mutex_lock(&book->lock);
    context *const c = own_context();
    const lsi_memory_parts p = {c->path, lsi_memory_book_name(name, "")};
    const uint32_t number =
        lsi_memory_book_number(LSI_MEMORY_PATH, &p, sizeof(p));
    c->path = number != 0 ? number : c->path;
    pthread_mutex_unlock(&book->lock);
}

void lsi_memory_leave_range(void)
{
    pthread_mutex_lock(&book->lock);
    context *const c = own_context();
    const lsi_interned_thing *const p = lsi_interned_at(&book->things, c->path);
    c->path = p != NULL ? ((const lsi_memory_parts *)p->data)->parent : 0;
    pthread_mutex_unlock(&book->lock);
}

void lsi_memory_enter_phase(const char *name)
{
    pthread_mutex_lock(&book->lock);
    context *const c = own_context();
    if (c->depth < PHASES)
        c->outer_phases[c->depth] = c->phase;
    c->depth++;
    c->phase = lsi_memory_book_name(name, "");
    pthread_mutex_unlock(&book->lock);
}

void lsi_memory_leave_phase(void)
{
    pthread_mutex_lock(&book->lock);
    context *const c = own_context();
    c->depth -= c->depth > 0;
    c->phase = c->depth < PHASES ? c->outer_phases[c->depth] : c->phase;
    pthread_mutex_unlock(&book->lock);
}

uint32_t lsi_memory_path(void)
{
    pthread_mutex_lock(&book->lock);
    const uint32_t number = own_context()->path;
    pthread_mutex_unlock(&book->lock);
    return number;
}

lsi_memory_place lsi_memory_enter_operation(uint32_t path_of, const char *name,
                                            const char *suffix)
{
    pthread_mutex_lock(&book->lock);
    context *const c = own_context();
    const lsi_memory_place before = {c->of, c->path, c->operation};
    const lsi_interned_thing *const known =
        lsi_interned_at(&book->things, path_of);
    c->path = known != NULL && known->kind == LSI_MEMORY_PATH ? path_of : 0;
    c->operation = lsi_memory_book_name(name, suffix);
    c->n_pending = 0;
    pthread_mutex_unlock(&book->lock);
    return before;
}

void lsi_memory_leave_operation(lsi_memory_place before)
{
    pthread_mutex_lock(&book->lock);
    context *const c = own_context();
    c->path = before.of == c->of ? before.path : 0;
    c->operation = before.of == c->of ? before.operation : 0;
    c->n_pending = 0;
    pthread_mutex_unlock(&book->lock);
}

void lsi_memory_claim(const char *name)
{
    pthread_mutex_lock(&book->lock);
    context *const c = own_context();
    const uint32_t number =
        c->n_pending > 0 ? lsi_memory_book_name(name, "") : 0;
    if (number != 0 && book->lines != NULL)
        lsi_memory_lines_add(book->lines, "o %u", number);
    for (unsigned i = 0; i < c->n_pending; i++) {
        lsi_memory_held **const at = lsi_memory_book_find(c->pending[i].block);
        if (at != NULL && (*at)->id == c->pending[i].id)
            (*at)->owner.operation = number;
        if (number != 0 && book->lines != NULL)
            lsi_memory_lines_add(book->lines, " %" PRIu64, c->pending[i].id);
    }
    if (number != 0 && book->lines != NULL)
        lsi_memory_lines_add(book->lines, "\n");
    c->n_pending = 0;
    pthread_mutex_unlock(&book->lock);
}

static void note_refused(char *out, size_t room)
{
    out[0] = '\0';
    pthread_mutex_lock(&book->lock);
    if (lsi_memory_is_recorded()) {
        lsi_memory_book_holders(out, room);
        if (book->lines != NULL)
            lsi_memory_lines_event(book->lines, "r %" PRIu64 " %zu\n",
                                   lsi_memory_book_time(),
                                   lsi_memory_book_live());
        lsi_memory_book_look(true);
    }
    pthread_mutex_unlock(&book->lock);
}

const lsi_memory_hook lsi_memory_recorder = {.taken = note_taken,
                                             .given = note_given,
                                             .kept = note_kept,
                                             .counted = note_counted,
                                             .refused = note_refused};

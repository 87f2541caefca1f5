#include "observe/memory_record.h"

#include <unwind.h>

#include "observe/lock.h"
#include "observe/memory_book.h"

static lsi_memory_book *const book = &lsi_memory_books;

/* What a thread does now; `of` is the recording that it belongs to. */
typedef struct context {
    uint32_t of;
    uint32_t path, operation, phase;
    unsigned n_pending;
    struct {
        const void *block;
        uint64_t id;
    } pending[LSI_MEMORY_CLAIMS]; /* of a tape's pool, since an operation ended
                                   */
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
    uint64_t pc[LSI_MEMORY_FRAMES];
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
    lsi_memory_book_tell(book->log, r, lsi_memory_book_time());
    if (r->kept && c->n_pending < LSI_MEMORY_CLAIMS) {
        c->pending[c->n_pending].block = block;
        c->pending[c->n_pending++].id = r->id;
    }
    lsi_memory_book_look(false);
}

/* Under the lock. The outermost call is the first trail. */
static uint32_t stack_of(const frames *f)
{
    uint32_t number = 0;
    for (size_t i = f->n; i-- > 0;) {
        number = lsi_memory_book_trail(
            (lsi_trail){.value = f->pc[i], .parent = number, .call = true});
        if (number == 0)
            break; /* 0 is the root of others */
    }
    return number;
}

static void note_taken(const void *block, size_t bytes, ls_memory_tag tag,
                       const char *what, bool of_pool)
{
    frames f = {.n = 0};
    _Unwind_Backtrace(see, &f);
    if (!lsi_observe_enter())
        return;
    if (lsi_memory_is_recorded()) {
        const lsi_memory_held value = {
            .kept = of_pool,
            .owner = {.what = lsi_memory_book_name(what, ""),
                      .stack = stack_of(&f)}};
        take(block, bytes, tag, value);
    }
    lsi_observe_unlock();
}

static void count(int64_t bytes, ls_memory_tag tag)
{
    book->live[tag] += bytes;
    book->anonymous[tag] += bytes;
    LSI_MEMORY_TELL(book->log, COUNTED, lsi_memory_book_time(), (uint64_t)tag,
                    lsi_zigzag(bytes));
}

/*
 * A block from before the recording is unknown: its bytes are subtracted from
 * those of its kind.
 */
static void note_given(const void *block, size_t bytes, ls_memory_tag tag)
{
    if (!lsi_observe_enter())
        return;
    lsi_memory_held **const at =
        lsi_memory_is_recorded() ? lsi_memory_book_find(block) : NULL;
    if (at != NULL) {
        const lsi_memory_held *const r = *at;
        book->live[r->tag] -= (int64_t)r->bytes;
        book->kept_in_use -= r->kept ? r->bytes : 0;
        LSI_MEMORY_TELL(book->log, GIVEN, r->id, lsi_memory_book_time());
        lsi_memory_book_remove(at);
    } else if (bytes > 0 && lsi_memory_is_recorded()) {
        count(-(int64_t)bytes, tag);
    }
    lsi_observe_unlock();
}

static void note_kept(int64_t bytes)
{
    if (!lsi_observe_enter())
        return;
    if (lsi_memory_is_recorded()) {
        book->kept += (size_t)bytes;
        LSI_MEMORY_TELL(book->log, KEPT_NOW, lsi_memory_book_time(),
                        book->kept);
    }
    lsi_observe_unlock();
}

static void note_counted(int64_t bytes, ls_memory_tag tag)
{
    if (!lsi_observe_enter())
        return;
    if (lsi_memory_is_recorded() && bytes != 0) {
        count(bytes, tag);
        lsi_memory_book_note_peak();
        lsi_memory_book_look(false);
    }
    lsi_observe_unlock();
}

lsi_memory_use lsi_memory_in_use(void)
{
    lsi_memory_use use = {0, 0};
    lsi_observe_lock();
    if (lsi_memory_is_recorded())
        use = (lsi_memory_use){lsi_memory_book_in_use(), book->most_in_use};
    lsi_observe_unlock();
    return use;
}

void lsi_memory_reset_in_use(void)
{
    lsi_observe_lock();
    book->most_in_use = lsi_memory_book_in_use();
    lsi_observe_unlock();
}

/* ---- where this thread is ------------------------------------------------ */

void lsi_memory_enter_range(const char *name)
{
    lsi_observe_lock();
    context *const c = own_context();
    const uint32_t number = lsi_memory_book_trail((lsi_trail){
        .value = lsi_memory_book_name(name, ""), .parent = c->path});
    c->path = number != 0 ? number : c->path;
    lsi_observe_unlock();
}

void lsi_memory_leave_range(void)
{
    lsi_observe_lock();
    context *const c = own_context();
    if (c->path != 0) /* none is left after the end of the recording */
        c->path = c->path <= book->trails.n
                      ? book->trails.all[c->path - 1].parent
                      : 0;
    lsi_observe_unlock();
}

uint32_t lsi_memory_enter_phase(const char *name)
{
    lsi_observe_lock();
    context *const c = own_context();
    const uint32_t outer = c->phase;
    c->phase = lsi_memory_book_name(name, "");
    lsi_observe_unlock();
    return outer;
}

void lsi_memory_leave_phase(uint32_t outer)
{
    lsi_observe_lock();
    own_context()->phase = outer;
    lsi_observe_unlock();
}

uint32_t lsi_memory_path(void)
{
    lsi_observe_lock();
    const uint32_t number = own_context()->path;
    lsi_observe_unlock();
    return number;
}

lsi_memory_place lsi_memory_enter_operation(uint32_t path_of, const char *name,
                                            const char *suffix)
{
    lsi_observe_lock();
    context *const c = own_context();
    const lsi_memory_place before = {c->of, c->path, c->operation};
    const bool known = path_of != 0 && path_of <= book->trails.n &&
                       !book->trails.all[path_of - 1].call;
    c->path = known ? path_of : 0;
    c->operation = lsi_memory_book_name(name, suffix);
    c->n_pending = 0;
    lsi_observe_unlock();
    return before;
}

void lsi_memory_leave_operation(lsi_memory_place before)
{
    lsi_observe_lock();
    context *const c = own_context();
    c->path = before.of == c->of ? before.path : 0;
    c->operation = before.of == c->of ? before.operation : 0;
    c->n_pending = 0;
    lsi_observe_unlock();
}

void lsi_memory_claim(const char *name)
{
    lsi_observe_lock();
    context *const c = own_context();
    const uint32_t number =
        c->n_pending > 0 ? lsi_memory_book_name(name, "") : 0;
    uint64_t ids[LSI_MEMORY_CLAIMS];
    for (unsigned i = 0; i < c->n_pending; i++) {
        lsi_memory_held **const at = lsi_memory_book_find(c->pending[i].block);
        if (at != NULL && (*at)->id == c->pending[i].id)
            (*at)->owner.operation = number;
        ids[i] = c->pending[i].id;
    }
    if (number != 0)
        lsi_memory_log_add(book->log, LSI_MEMORY_OPERATION,
                           (uint64_t[]){number, c->n_pending}, ids,
                           c->n_pending);
    c->n_pending = 0;
    lsi_observe_unlock();
}

static void note_refused(char *out, size_t room)
{
    out[0] = '\0';
    if (!lsi_observe_enter())
        return;
    if (lsi_memory_is_recorded()) {
        lsi_memory_book_holders(out, room);
        LSI_MEMORY_TELL(book->log, REFUSED, lsi_memory_book_time(),
                        lsi_memory_book_live());
        lsi_memory_book_look(true);
    }
    lsi_observe_unlock();
}

const lsi_memory_hook lsi_memory_recorder = {.taken = note_taken,
                                             .given = note_given,
                                             .kept = note_kept,
                                             .counted = note_counted,
                                             .refused = note_refused};

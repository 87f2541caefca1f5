#include "observe/memory_record.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/restart.h"
#include "observe/chunks.h"
#include "observe/lock.h"
#include "observe/memory_book.h"
#include "observe/spans.h"

static lsi_memory_book *const book = &lsi_memory_books;

/*
 * The present activity of a thread; `of` is the recording that it belongs to.
 */
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

/* ---- allocated and freed blocks ------------------------------------------ */

static void record_block(const void *block, size_t bytes, ls_memory_tag tag,
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
    lsi_memory_book_write(book->log, r, lsi_memory_book_time());
    if (r->kept && c->n_pending < LSI_MEMORY_CLAIMS) {
        c->pending[c->n_pending].block = block;
        c->pending[c->n_pending++].id = r->id;
    }
    lsi_memory_book_snapshot_if_due(false);
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

/* Acquires the lock; false, without it, if nothing is recorded. */
static bool begin_note(void)
{
    if (!lsi_observe_enter())
        return false;
    if (lsi_memory_is_recorded())
        return true;
    lsi_observe_unlock();
    return false;
}

static void note_taken(const void *block, size_t bytes, ls_memory_tag tag,
                       const char *what, bool of_pool)
{
    frames f = {.n = 0};
    _Unwind_Backtrace(see, &f);
    if (!begin_note())
        return;
    const lsi_memory_held value = {
        .kept = of_pool,
        .owner = {.what = lsi_memory_book_name(what, ""),
                  .stack = stack_of(&f)}};
    record_block(block, bytes, tag, value);
    lsi_observe_unlock();
}

static void count(int64_t bytes, ls_memory_tag tag)
{
    book->live[tag] += bytes;
    book->anonymous[tag] += bytes;
    LSI_MEMORY_WRITE(book->log, COUNTED, lsi_memory_book_time(), (uint64_t)tag,
                     lsi_zigzag(bytes));
}

/*
 * A block from before the recording is unknown: its bytes are subtracted from
 * those of its kind.
 */
static void note_given(const void *block, size_t bytes, ls_memory_tag tag)
{
    if (!begin_note())
        return;
    lsi_memory_held **const at = lsi_memory_book_find(block);
    if (at != NULL) {
        const lsi_memory_held *const r = *at;
        book->live[r->tag] -= (int64_t)r->bytes;
        book->kept_in_use -= r->kept ? r->bytes : 0;
        LSI_MEMORY_WRITE(book->log, GIVEN, r->id, lsi_memory_book_time());
        lsi_memory_book_remove(at);
    } else if (bytes > 0) {
        count(-(int64_t)bytes, tag);
    }
    lsi_observe_unlock();
}

static void note_kept(int64_t bytes)
{
    if (!begin_note())
        return;
    book->kept += (size_t)bytes;
    LSI_MEMORY_WRITE(book->log, KEPT_NOW, lsi_memory_book_time(), book->kept);
    lsi_observe_unlock();
}

static void note_counted(int64_t bytes, ls_memory_tag tag)
{
    if (bytes == 0 || !begin_note())
        return;
    count(bytes, tag);
    lsi_memory_book_note_peak();
    lsi_memory_book_snapshot_if_due(false);
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
    if (!begin_note())
        return;
    lsi_memory_book_holders(out, room);
    LSI_MEMORY_WRITE(book->log, REFUSED, lsi_memory_book_time(),
                     lsi_memory_book_live());
    lsi_memory_book_snapshot_if_due(true);
    lsi_observe_unlock();
}

static const lsi_memory_hook recorder = {.taken = note_taken,
                                         .given = note_given,
                                         .kept = note_kept,
                                         .counted = note_counted,
                                         .refused = note_refused};

/* ---- beginning and end --------------------------------------------------- */

/* Where the file is that is to be named after the rank, or "". */
static char folder[PATH_MAX - 64];
static char unnamed[PATH_MAX];

static void set_recorded(bool recorded)
{
    atomic_store(&lsi_memory_hooked, recorded ? &recorder : NULL);
    lsi_span_want(LSI_SPAN_TO_MEMORY, recorded);
}

/* Blocks that are live before the recording have no known holder. */
static void begin(void)
{
    book->recording++;
    book->last_id = 0;
    book->kept = lsi_memory_kept();
    book->kept_in_use = 0;
    for (int tag = 0; tag < LS_MEMORY_TAG_COUNT; tag++) {
        ls_memory_stats stats;
        ls_memory_of((ls_memory_tag)tag, &stats);
        int64_t bytes = (int64_t)stats.live_bytes;
        if (tag == LS_MEMORY_ACTIVATIONS)
            bytes -= (int64_t)book->kept;
        bytes = bytes > 0 ? bytes : 0;
        book->live[tag] = book->anonymous[tag] = bytes;
        if (bytes > 0)
            LSI_MEMORY_WRITE(book->log, INITIAL, (uint64_t)tag,
                             lsi_zigzag(bytes));
    }
    book->most_in_use = lsi_memory_book_in_use();
    LSI_MEMORY_WRITE(book->log, KEPT_NOW, 0, book->kept);
}

static void forget(void)
{
    lsi_memory_book_forget();
    book->snapshot_path[0] = '\0';
    folder[0] = '\0';
}

/* 0, or errno. */
static int end(void)
{
    set_recorded(false);
    const int error = lsi_memory_log_close(&book->log);
    forget();
    return error;
}

static void end_with_process(void)
{
    lsi_observe_lock();
    const int error = lsi_memory_is_recorded() ? end() : 0;
    lsi_observe_unlock();
    if (error != 0)
        lsi_log(LS_LOG_WARN,
                "the memory recording is incomplete, because its file cannot "
                "be written: %s",
                strerror(error));
}

/* The file is the parent's. */
static void in_child(void)
{
    if (!lsi_memory_is_recorded())
        return;
    set_recorded(false);
    lsi_memory_log_forget(&book->log);
    forget();
}

static lsi_fork_guard fork_guard = {.in_child = in_child};

static void prepare(void)
{
    lsi_guard_forks(&fork_guard);
    (void)atexit(end_with_process);
}

/* Under the lock. `fresh`: not in a file that is there already. */
static ls_status start(const char *path, bool fresh)
{
    if (lsi_memory_is_recorded())
        return lsi_fail(LS_ERR_STATE,
                        "ls_memory_record_start: memory is already being "
                        "recorded; call ls_memory_record_stop first");
    const lsi_instant now = lsi_instant_now();
    book->began_ns = now.ns;
    if (path[0] != '\0' &&
        (book->log = lsi_memory_log_open(path, fresh, now)) == NULL)
        return lsi_fail_errno(LS_ERR_IO, "cannot record memory in '%s'", path);
    begin();
    set_recorded(true);
    return LS_OK;
}

static ls_status start_recording(const char *path, bool fresh)
{
    static pthread_once_t prepared = PTHREAD_ONCE_INIT;
    pthread_once(&prepared, prepare);
    lsi_observe_lock();
    const ls_status status = start(path, fresh);
    lsi_observe_unlock();
    return status;
}

ls_status ls_memory_record_start(const char *path)
{
    LS_NEED(path);
    return start_recording(path, false);
}

static ls_status check_recorded(const char *function)
{
    if (lsi_memory_is_recorded())
        return LS_OK;
    return lsi_fail(
        LS_ERR_STATE,
        "%s: memory is not being recorded; call ls_memory_record_start first",
        function);
}

ls_status ls_memory_record_stop(void)
{
    lsi_observe_lock();
    ls_status status = check_recorded(__func__);
    const int error = status == LS_OK ? end() : 0;
    lsi_observe_unlock();
    errno = error;
    if (error != 0)
        status =
            lsi_fail_errno(LS_ERR_IO, "the memory recording is incomplete, "
                                      "because its file cannot be written");
    return status;
}

/* ---- snapshots ----------------------------------------------------------- */

ls_status ls_memory_snapshot(const char *path)
{
    LS_NEED(path);
    lsi_observe_lock();
    ls_status status = check_recorded(__func__);
    const int error = status == LS_OK ? lsi_memory_book_snapshot(path) : 0;
    lsi_observe_unlock();
    errno = error;
    if (error != 0)
        status = lsi_fail_errno(LS_ERR_IO,
                                "cannot write the memory snapshot '%s'", path);
    return status;
}

/* Under the lock. */
static ls_status ask_for_snapshot(size_t bytes, const char *path)
{
    LS_TRY(check_recorded("ls_memory_snapshot_above"));
    if (strlen(path) >= sizeof(book->snapshot_path))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_memory_snapshot_above: the path is too long; at "
                        "most %zu bytes are allowed",
                        sizeof(book->snapshot_path) - 1);
    snprintf(book->snapshot_path, sizeof(book->snapshot_path), "%s", path);
    book->snapshot_above = bytes;
    lsi_memory_book_snapshot_if_due(false);
    return LS_OK;
}

ls_status ls_memory_snapshot_above(size_t bytes, const char *path)
{
    LS_NEED(path);
    lsi_observe_lock();
    const ls_status status = ask_for_snapshot(bytes, path);
    lsi_observe_unlock();
    return status;
}

/* ---- a file for each rank ------------------------------------------------ */

/* Under the lock. */
static void name_after_rank(int rank)
{
    char named[PATH_MAX];
    if (folder[0] == '\0' || rank < 0)
        return;
    snprintf(named, sizeof(named), "%s/rank-%d.lsmem", folder, rank);
    if (rename(unnamed, named) != 0)
        return;
    folder[0] = '\0';
    if (book->log != NULL)
        lsi_memory_log_head(book->log);
}

ls_status lsi_memory_record_in(const char *name)
{
    int32_t rank, size;
    char in[sizeof(folder)];
    if (name == NULL || lsi_memory_is_recorded())
        return LS_OK;
    if (!lsi_restart_folder(name, in, sizeof(in)))
        return lsi_fail(
            LS_ERR_IO,
            "cannot record memory: the path of the folder is too long");
    if (!lsi_make_folders(in))
        return lsi_fail_errno(LS_ERR_IO, "cannot record memory in '%s'", in);
    snprintf(unnamed, sizeof(unnamed), "%s/process-%d.lsmem", in,
             (int)getpid());
    LS_TRY(start_recording(unnamed, true));
    lsi_get_rank(&rank, &size);
    lsi_observe_lock();
    snprintf(folder, sizeof(folder), "%s", in);
    name_after_rank(rank);
    lsi_observe_unlock();
    return LS_OK;
}

/* Before main, so that all of the program is there. */
__attribute__((constructor)) static void begin_by_environment(void)
{
    const char *const name = getenv("LOCKSTEP_MEMORY");
    if (name != NULL && name[0] != '\0' && lsi_memory_record_in(name) != LS_OK)
        lsi_log(LS_LOG_WARN, "LOCKSTEP_MEMORY: %s", ls_last_error());
}

void lsi_memory_record_set_rank(int rank)
{
    if (!lsi_memory_is_recorded()) /* a process that another has forked */
        begin_by_environment();
    lsi_observe_lock();
    name_after_rank(rank);
    lsi_observe_unlock();
}

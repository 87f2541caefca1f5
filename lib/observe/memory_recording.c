/* A memory recording's life: its file, its snapshots, forks and ranks. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/restart.h"
#include "observe/chunks.h"
#include "observe/lock.h"
#include "observe/memory_book.h"
#include "observe/memory_record.h"
#include "observe/spans.h"

static lsi_memory_book *const book = &lsi_memory_books;

/* Where the file is that is to be named after the rank, or "". */
static char folder[PATH_MAX - 64];
static char unnamed[PATH_MAX];

/* ---- beginning and end --------------------------------------------------- */

static void set_recorded(bool recorded)
{
    atomic_store(&lsi_memory_hooked, recorded ? &lsi_memory_recorder : NULL);
    lsi_span_want(LSI_SPAN_TO_MEMORY, recorded);
}

/* What is live before nobody is known of. */
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
            LSI_MEMORY_TELL(book->log, INITIAL, (uint64_t)tag,
                            lsi_zigzag(bytes));
    }
    book->most_in_use = lsi_memory_book_in_use();
    LSI_MEMORY_TELL(book->log, KEPT_NOW, 0, book->kept);
}

/* 0, or errno. */
static int end(void)
{
    set_recorded(false);
    const int error = lsi_memory_log_close(&book->log);
    lsi_memory_book_forget();
    book->snapshot_path[0] = '\0';
    folder[0] = '\0';
    return error;
}

static void end_with_process(void)
{
    lsi_observe_lock();
    const int error = lsi_memory_is_recorded() ? end() : 0;
    lsi_observe_unlock();
    if (error != 0)
        lsi_log(LSI_LOG_WARN, "the recording of memory is not whole: %s",
                strerror(error));
}

/* The file is the parent's. */
static void in_child(void)
{
    if (lsi_memory_is_recorded()) {
        set_recorded(false);
        lsi_memory_log_forget(&book->log);
        lsi_memory_book_forget();
        book->snapshot_path[0] = '\0';
        folder[0] = '\0';
    }
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
                        "ls_memory_record_start: memory is recorded already");
    const lsi_instant now = lsi_instant_now();
    book->began_ns = now.ns;
    if (path[0] != '\0' &&
        (book->log = lsi_memory_log_open(path, fresh, now)) == NULL)
        return lsi_fail_errno(LS_ERR_IO, "cannot record memory in %s", path);
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
    return lsi_fail(LS_ERR_STATE,
                    "%s: memory is not recorded; ls_memory_record_start "
                    "begins that",
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
            lsi_fail_errno(LS_ERR_IO, "the recording of memory is not whole");
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
                                "cannot write the snapshot of memory %s", path);
    return status;
}

/* Under the lock. */
static ls_status ask_for_snapshot(size_t bytes, const char *path)
{
    LS_TRY(check_recorded("ls_memory_snapshot_above"));
    if (strlen(path) >= sizeof(book->snapshot_path))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_memory_snapshot_above: the path has more than %zu "
                        "bytes",
                        sizeof(book->snapshot_path) - 1);
    snprintf(book->snapshot_path, sizeof(book->snapshot_path), "%s", path);
    book->snapshot_above = bytes;
    lsi_memory_book_look(false);
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
        return lsi_fail(LS_ERR_IO,
                        "cannot record memory: the folder's name is too long");
    if (!lsi_make_folders(in))
        return lsi_fail_errno(LS_ERR_IO, "cannot record memory in %s", in);
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
        lsi_log(LSI_LOG_WARN, "LOCKSTEP_MEMORY: %s", ls_last_error());
}

void lsi_memory_record_set_rank(int rank)
{
    if (!lsi_memory_is_recorded()) /* a process that another has forked */
        begin_by_environment();
    lsi_observe_lock();
    name_after_rank(rank);
    lsi_observe_unlock();
}

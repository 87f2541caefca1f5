#include "observe/span_file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/restart.h"
#include "observe/chunks.h"
#include "observe/lock.h"
#include "observe/memory_record.h"

/* Bytes of a span at most: see put_span. */
enum { MOST_SPAN = 80, MOST_THREADS = 4096 };

/* Files in a trace that is full, and more than there can ever be. */
enum { PARTS = 8, MOST_FILES = 4 * PARTS };

/* The lock (lock.h) guards all of this. */
static char folder[PATH_MAX - 128];
static bool open_for_spans; /* between the beginning and the end of tracing */
static bool thread_named[MOST_THREADS];
static uint64_t written;               /* spans */
static uint64_t first_step, last_step; /* of those; 0: none */

/* When tracing began. */
static lsi_instant started;
static uint64_t started_wall_ns;

/* ---- files --------------------------------------------------------------- */

static char stem[64];  /* of all names; "": no file has been opened yet */
static uint64_t limit; /* bytes of all files; 0: none */
static uint64_t total, sizes[MOST_FILES]; /* of files that were closed */
static unsigned current, oldest;          /* numbers of files */

static void name_file(unsigned number, char out[PATH_MAX])
{
    if (number == 0)
        snprintf(out, PATH_MAX, "%s/%s.lstrace", folder, stem);
    else
        snprintf(out, PATH_MAX, "%s/%s.%u.lstrace", folder, stem, number);
}

/*
 * Removes the oldest files until n more bytes fit. A file that others have
 * deleted frees no space and counts as removed.
 */
static void make_room(const lsi_chunks *to, size_t n)
{
    char old[PATH_MAX];
    const uint64_t now = total + to->bytes + n;
    uint64_t removed = 0;
    for (; limit > 0 && now - removed > limit && oldest < current; oldest++) {
        name_file(oldest, old);
        (void)unlink(old);
        removed += sizes[oldest % MOST_FILES];
    }
    total -= removed;
}

static lsi_chunks file = {.fd = -1, .make_room = make_room};

static bool is_open(void)
{
    return file.fd >= 0;
}

/* "STEM.12.lstrace" */
static bool is_later_file(const char *name)
{
    const size_t n = strlen(stem);
    if (strncmp(name, stem, n) != 0 || name[n] != '.')
        return false;
    const size_t digits = strspn(name + n + 1, "0123456789");
    return digits > 0 && strcmp(name + n + 1 + digits, ".lstrace") == 0;
}

/* Removes files of an old trace, which would look like parts of this one. */
static void remove_files_of_earlier_run(void)
{
    DIR *const all = opendir(folder);
    if (all == NULL)
        return;
    for (const struct dirent *e; (e = readdir(all)) != NULL;)
        if (is_later_file(e->d_name))
            (void)unlinkat(dirfd(all), e->d_name, 0);
    closedir(all);
}

/* The files of a trace keep the name that the first one has. */
static void name_trace(void)
{
    int32_t rank, size;
    if (stem[0] != '\0')
        return;
    lsi_get_rank(&rank, &size);
    snprintf(stem, sizeof(stem), "%s-%d", rank >= 0 ? "rank" : "process",
             rank >= 0 ? rank : (int)getpid());
    remove_files_of_earlier_run();
}

/* False (errno): not all is stored. */
static bool close_file(void)
{
    if (!is_open())
        return true;
    sizes[current++ % MOST_FILES] = file.bytes;
    total += file.bytes;
    file.bytes = 0;
    return lsi_chunks_close(&file);
}

/* ---- what computes ------------------------------------------------------- */

static _Atomic int threads; /* of products; 0: none so far */
static int written_threads; /* in the last header */

void lsi_span_set_threads(int number)
{
    atomic_store_explicit(&threads, number, memory_order_relaxed);
}

static int threads_now(void)
{
    return atomic_load_explicit(&threads, memory_order_relaxed);
}

static const char *isa(void)
{
    lsi_isa level;
    if (lsi_isa_from_env(&level) != LS_OK)
        level = lsi_cpu_isa();
    return lsi_isa_name(level);
}

/* ---- what comes first ---------------------------------------------------- */

static json_t *kinds(void)
{
    json_t *const list = json_array();
#define X(NAME, name, bytes, work, id)                                         \
    json_array_append_new(list,                                                \
                          json_pack("{s:s, s:s, s:s, s:s}", "kind", name,      \
                                    "bytes", bytes, "work", work, "id", id));
    LSI_SPAN_KIND_LIST(X)
#undef X
    return list;
}

static bool write_header(void)
{
    written_threads = threads_now();
    return lsi_chunks_head(
        &file,
        json_pack("{s:i, s:I, s:I, s:I, s:s, s:i, s:o}", "file", (int)current,
                  "spans_before", (json_int_t)written, "first_step",
                  (json_int_t)first_step, "last_step", (json_int_t)last_step,
                  "isa", isa(), "threads", written_threads, "kinds", kinds()));
}

static bool open_file(void)
{
    char path[PATH_MAX];
    const lsi_instant now = lsi_instant_now();
    const bool first = current == 0;
    memset(thread_named, 0, sizeof(thread_named));
    name_trace();
    name_file(current, path);
    /* A new file, so that the target of a link is not written to. */
    if (!lsi_chunks_open(&file, path, true)) {
        lsi_log(LS_LOG_WARN, "cannot write the trace '%s': %s", path,
                strerror(errno));
        return false;
    }
    return write_header() &&
           lsi_chunks_clock(&file, first ? started : now,
                            first ? started_wall_ns : lsi_wall_clock_ns());
}

static bool write_thread(uint32_t thread, const char *name)
{
    if (thread >= MOST_THREADS || thread_named[thread])
        return true;
    thread_named[thread] = true;
    return lsi_chunks_text(&file, 'T', thread, name);
}

/* ---- spans --------------------------------------------------------------- */

/* At most MOST_SPAN bytes: a byte, and six numbers of ten bytes at most. */
static void put_span(const lsi_span *span, uint64_t before)
{
    file.chunk[file.used++] =
        (unsigned char)(span->kind |
                        (span->bytes != 0 ? LSI_SPAN_HAS_BYTES : 0) |
                        (span->work != 0 ? LSI_SPAN_HAS_WORK : 0) |
                        (span->id != 0 ? LSI_SPAN_HAS_ID : 0));
    lsi_chunk_number(&file, span->name);
    lsi_chunk_number(&file, lsi_zigzag((int64_t)(span->begin - before)));
    lsi_chunk_number(&file, span->end - span->begin);
    if (span->bytes != 0)
        lsi_chunk_number(&file, span->bytes);
    if (span->work != 0)
        lsi_chunk_number(&file, span->work);
    if (span->id != 0)
        lsi_chunk_number(&file, span->id);
}

static void note_step(const lsi_span *span)
{
    if (span->kind != LSI_SPAN_STEP)
        return;
    first_step = first_step == 0 ? span->id : first_step;
    last_step = span->id;
}

/* As many as a chunk has room for; *n of them. */
static bool write_some(uint32_t thread, const lsi_span *spans, size_t *n)
{
    const size_t most = (LSI_CHUNK_BYTES - MOST_SPAN) / MOST_SPAN;
    uint64_t before = 0;
    *n = *n < most ? *n : most;
    lsi_chunk_number(&file, thread);
    lsi_chunk_number(&file, *n);
    for (size_t i = 0; i < *n; i++) {
        put_span(&spans[i], before);
        before = spans[i].end;
        note_step(&spans[i]);
    }
    written += *n;
    return lsi_chunk_write(&file, 'E');
}

/* Parts that a file needs ahead of a thread's spans. */
static bool prepare_file(uint32_t thread, const char *thread_name)
{
    if (!is_open() && !open_file())
        return false;
    int32_t rank, size;
    lsi_get_rank(&rank, &size);
    const bool old =
        (!file.rank_written && rank >= 0) || written_threads != threads_now();
    if (old && !write_header())
        return false;
    return lsi_chunks_names(&file) && write_thread(thread, thread_name);
}

/*
 * Whether spans after that one are for another file: soon, where a step ends,
 * or, if no step ends, now.
 */
static bool ends_file(const lsi_span *last)
{
    const bool step_ends = last->kind == LSI_SPAN_STEP;
    const uint64_t most = step_ends ? limit / PARTS : limit / (PARTS / 2);
    return limit > 0 && file.bytes >= most;
}

static bool write_all(uint32_t thread, const char *thread_name,
                      const lsi_span *spans, size_t n)
{
    for (size_t done = 0, some; done < n; done += some) {
        some = n - done;
        if (!prepare_file(thread, thread_name) ||
            !write_some(thread, spans + done, &some))
            return false;
        const bool ends = ends_file(&spans[done + some - 1]);
        if ((ends || done + some == n) &&
            !lsi_chunks_clock(&file, lsi_instant_now(), lsi_wall_clock_ns()))
            return false;
        if (ends && !close_file())
            return false;
    }
    return true;
}

/* Spans of a thread after the end of tracing are dropped. */
bool lsi_span_write(uint32_t thread, const char *thread_name,
                    const lsi_span *spans, size_t n)
{
    if (!open_for_spans)
        return false;
    if (write_all(thread, thread_name, spans, n))
        return true;
    if (is_open())
        lsi_log(LS_LOG_WARN,
                "tracing has stopped, because the trace in '%s' cannot be "
                "written: %s",
                folder, strerror(errno));
    (void)close_file();
    open_for_spans = false;
    return false;
}

/* ---- steps --------------------------------------------------------------- */

static _Atomic bool limited;  /* to traced_n steps from traced_from on */
static _Atomic bool numbered; /* by lsi_span_begin_step */
static uint64_t traced_from, traced_n;
static _Atomic uint64_t optimizer_steps;

/* A number from 1 to 10^15 at *text, which moves behind it; 0: none. */
static uint64_t parse_number(const char **text)
{
    char *end;
    if (**text < '0' || **text > '9')
        return 0;
    const unsigned long long value = strtoull(*text, &end, 10);
    *text = end;
    return value <= UINT64_C(1000000000000000) ? value : 0;
}

ls_status lsi_span_limit_steps(const char *what, const char *text)
{
    if (text == NULL)
        return LS_OK;
    const char *at = text;
    const uint64_t from = parse_number(&at);
    const bool colon = from > 0 && *at == ':';
    at += colon;
    const uint64_t n = colon ? parse_number(&at) : 0;
    if (n == 0 || *at != '\0')
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s '%s' is not FIRST:COUNT, two numbers of at least "
                        "1. For example, 100:5 traces the steps 100 to 104",
                        what, text);
    traced_from = from;
    traced_n = n;
    atomic_store(&limited, true);
    return LS_OK;
}

static bool step_is_traced(uint64_t number)
{
    return !atomic_load(&limited) ||
           (number >= traced_from && number - traced_from < traced_n);
}

/* Records nothing more until a step that is traced. */
static void at_step(uint64_t number)
{
    const bool on = step_is_traced(number);
    if (on == lsi_span_is_written())
        return;
    lsi_observe_lock();
    if (open_for_spans) {
        lsi_span_want(LSI_SPAN_TO_FILE, on);
        lsi_span_flush_all();
    }
    lsi_observe_unlock();
}

void lsi_span_begin_step(uint64_t number)
{
    if (!atomic_load_explicit(&limited, memory_order_relaxed))
        return;
    atomic_store(&numbered, true);
    at_step(number);
}

void lsi_span_end_optimizer_step(void)
{
    if (!atomic_load_explicit(&limited, memory_order_relaxed) ||
        atomic_load(&numbered))
        return;
    at_step(atomic_fetch_add(&optimizer_steps, 1) + 2);
}

/* ---- beginning and end --------------------------------------------------- */

static ls_status make_folder(void)
{
    if (lsi_make_folders(folder) && access(folder, W_OK | X_OK) == 0)
        return LS_OK;
    return lsi_fail_errno(LS_ERR_IO, "cannot write traces to the folder '%s'",
                          folder);
}

static void register_end(void)
{
    (void)atexit(lsi_span_stop);
}

/* "16m"; 0 means unlimited. */
static ls_status read_limit(void)
{
    int64_t bytes = (int64_t)LSI_SPAN_LIMIT;
    const char *const text = getenv("LOCKSTEP_TRACE_LIMIT");
    const bool set = text != NULL && text[0] != '\0';
    if (set && (lsi_parse_bytes(text, &bytes) != LS_OK ||
                (bytes != 0 && (uint64_t)bytes < LSI_SPAN_LEAST_LIMIT)))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "LOCKSTEP_TRACE_LIMIT '%s' is not a size of 4m or "
                        "more, such as 100m or 1g. Use 0 for no limit",
                        text);
    limit = (uint64_t)bytes;
    return LS_OK;
}

/* Under the lock. */
static ls_status start(const char *name)
{
    if (open_for_spans)
        return LS_OK;
    LS_TRY(read_limit());
    if (!lsi_restart_folder(name, folder, sizeof(folder)))
        return lsi_fail(
            LS_ERR_IO,
            "cannot write traces: the path of the folder is too long");
    LS_TRY(make_folder());
    stem[0] = '\0';
    total = written = first_step = last_step = 0;
    current = oldest = 0;
    memset(sizes, 0, sizeof(sizes));
    started = lsi_instant_now();
    started_wall_ns = lsi_wall_clock_ns();
    open_for_spans = true;
    lsi_span_want(LSI_SPAN_TO_FILE, step_is_traced(1));
    return LS_OK;
}

ls_status lsi_span_start(const char *name)
{
    static pthread_once_t registered = PTHREAD_ONCE_INIT;
    if (name == NULL)
        return LS_OK;
    lsi_span_prepare();
    lsi_observe_lock();
    const ls_status status = start(name);
    lsi_observe_unlock();
    if (status == LS_OK)
        pthread_once(&registered, register_end);
    return status;
}

/* Before main, so that all of the program is there. */
__attribute__((constructor)) static void begin_by_environment(void)
{
    const char *const name = getenv("LOCKSTEP_TRACE");
    const char *const steps = getenv("LOCKSTEP_TRACE_STEPS");
    if (name == NULL || name[0] == '\0')
        return;
    ls_status status = LS_OK;
    if (steps != NULL && steps[0] != '\0')
        status = lsi_span_limit_steps("LOCKSTEP_TRACE_STEPS", steps);
    if (status == LS_OK)
        status = lsi_span_start(name);
    if (status != LS_OK)
        lsi_log(LS_LOG_WARN, "LOCKSTEP_TRACE: %s", ls_last_error());
}

/* Under the lock. A process that has recorded nothing leaves no file. */
static void stop(void)
{
    if (!open_for_spans)
        return;
    lsi_span_want(LSI_SPAN_TO_FILE, false);
    lsi_span_flush_all();
    open_for_spans = false;
    if (written == 0)
        return;
    /* The last file may have become full just now. */
    bool good = is_open() || open_file();
    good = good && lsi_chunks_end(&file, written, 0);
    if (!close_file() || !good)
        lsi_log(LS_LOG_WARN,
                "the trace in '%s' is incomplete, because its end cannot be "
                "written: %s",
                folder, strerror(errno));
}

void lsi_span_stop(void)
{
    lsi_observe_lock();
    stop();
    lsi_observe_unlock();
}

/* The file stays its parent's. */
void lsi_span_forget(void)
{
    (void)lsi_chunks_close(&file);
    stem[0] = '\0';
    open_for_spans = false;
    lsi_forget_rank();
}

/* Threads may open groups at once. */
void lsi_span_set_rank(int rank_of_process, int ranks, uint64_t job_of_ranks)
{
    lsi_span_prepare(); /* a child of this process has another rank */
    lsi_observe_lock();
    const bool first = lsi_set_rank(rank_of_process, ranks, job_of_ranks);
    lsi_observe_unlock();
    if (!first)
        return;
    if (!lsi_span_is_written()) /* a process that another has forked */
        begin_by_environment();
    lsi_memory_record_set_rank(rank_of_process);
}

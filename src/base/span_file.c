#include "base/span_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory_record.h"
#include "lockstep/version.h"

/* Of a chunk, and of a span at most in it: see put_span. */
enum { CHUNK = 1 << 16, MOST_SPAN = 80, MOST_THREADS = 4096 };

/* All of it belongs to who holds the lock (lsi_span_lock). */
static char folder[PATH_MAX - 64];
static bool open_for_spans; /* between the beginning and the end of tracing */
static int fd = -1;
static _Atomic int rank = -1; /* the last to be known of these */
static int size;
static uint64_t job;
static bool rank_told;
static uint32_t names_told;
static bool thread_told[MOST_THREADS];
static uint64_t written; /* spans */
static unsigned char chunk[CHUNK];
static size_t used;

/* ---- chunks -------------------------------------------------------------- */

static void put_number(uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        chunk[used++] = (unsigned char)(value | 0x80);
    chunk[used++] = (unsigned char)value;
}

static void put_text(const char *text)
{
    const size_t room = sizeof(chunk) - used;
    const size_t n = strlen(text) < room ? strlen(text) : room;
    memcpy(chunk + used, text, n);
    used += n;
}

static uint64_t zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static bool write_bytes(const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    while (n > 0) {
        const ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        at += done;
        n -= (size_t)done;
    }
    return true;
}

static bool write_chunk(char letter)
{
    const unsigned char head[5] = {
        (unsigned char)letter, (unsigned char)used, (unsigned char)(used >> 8),
        (unsigned char)(used >> 16), (unsigned char)(used >> 24)};
    const size_t n = used;
    used = 0;
    return write_bytes(head, sizeof(head)) && write_bytes(chunk, n);
}

/* When tracing began. */
static lsi_instant started;
static uint64_t started_wall_ns;

static bool write_clock(lsi_instant at, uint64_t wall_ns)
{
    put_number(at.ticks);
    put_number(at.ns);
    put_number(wall_ns);
    return write_chunk('C');
}

/* ---- what comes first ---------------------------------------------------- */

/* Who has the same runs on the same monotonic clock. */
static void read_boot(char text[40])
{
    const int file =
        open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t n = file < 0 ? 0 : read(file, text, 36);
    text[n > 0 ? n : 0] = '\0';
    if (file >= 0)
        close(file);
}

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
    char host[HOST_NAME_MAX + 1] = "unknown", boot[40], name[24];
    const int known = rank;
    const bool has_rank = known >= 0;
    (void)gethostname(host, sizeof(host) - 1);
    read_boot(boot);
    snprintf(name, sizeof(name), "%016" PRIx64, has_rank ? job : 0);
    json_t *const head = json_pack(
        "{s:i, s:s, s:i, s:i, s:s, s:s, s:s, s:i, s:o}", "lockstep_trace",
        LSI_SPAN_VERSION, "version", ls_version_string(), "rank", known, "size",
        has_rank ? size : 0, "job", name, "host", host, "boot", boot, "pid",
        (int)getpid(), "kinds", kinds());
    char *const text = head != NULL ? json_dumps(head, JSON_COMPACT) : NULL;
    json_decref(head);
    if (text == NULL)
        return false;
    put_text(text);
    free(text);
    rank_told = has_rank;
    return write_chunk('H');
}

static bool open_file(void)
{
    char path[PATH_MAX];
    if (rank >= 0)
        snprintf(path, sizeof(path), "%s/rank-%d.lstrace", folder, rank);
    else
        snprintf(path, sizeof(path), "%s/process-%d.lstrace", folder,
                 (int)getpid());
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        lsi_log(LSI_LOG_WARN, "cannot write the trace %s: %s", path,
                strerror(errno));
        return false;
    }
    return write_bytes(LSI_SPAN_MAGIC, LSI_SPAN_MAGIC_BYTES) &&
           write_header() && write_clock(started, started_wall_ns);
}

static bool write_names(void)
{
    for (const uint32_t n = lsi_span_names(); names_told < n; names_told++) {
        put_number(names_told);
        put_text(lsi_span_name(names_told));
        if (!write_chunk('N'))
            return false;
    }
    return true;
}

static bool write_thread(uint32_t thread, const char *name)
{
    if (thread >= MOST_THREADS || thread_told[thread])
        return true;
    thread_told[thread] = true;
    put_number(thread);
    put_text(name);
    return write_chunk('T');
}

/* ---- spans --------------------------------------------------------------- */

/* At most MOST_SPAN bytes: a byte, and six numbers of ten bytes at most. */
static void put_span(const lsi_span *span, uint64_t before)
{
    chunk[used++] =
        (unsigned char)(span->kind |
                        (span->bytes != 0 ? LSI_SPAN_HAS_BYTES : 0) |
                        (span->work != 0 ? LSI_SPAN_HAS_WORK : 0) |
                        (span->id != 0 ? LSI_SPAN_HAS_ID : 0));
    put_number(span->name);
    put_number(zigzag((int64_t)(span->begin - before)));
    put_number(span->end - span->begin);
    if (span->bytes != 0)
        put_number(span->bytes);
    if (span->work != 0)
        put_number(span->work);
    if (span->id != 0)
        put_number(span->id);
}

/* As many as a chunk has room for; *n of them. */
static bool write_some(uint32_t thread, const lsi_span *spans, size_t *n)
{
    const size_t most = (CHUNK - MOST_SPAN) / MOST_SPAN;
    uint64_t before = 0;
    *n = *n < most ? *n : most;
    put_number(thread);
    put_number(*n);
    for (size_t i = 0; i < *n; i++) {
        put_span(&spans[i], before);
        before = spans[i].end;
    }
    return write_chunk('E');
}

static bool write_all(uint32_t thread, const char *thread_name,
                      const lsi_span *spans, size_t n)
{
    if (fd < 0 && !open_file())
        return false;
    if (!rank_told && rank >= 0 && !write_header())
        return false;
    if (!write_names() || !write_thread(thread, thread_name))
        return false;
    for (size_t done = 0, some; done < n; done += some) {
        some = n - done;
        if (!write_some(thread, spans + done, &some))
            return false;
    }
    written += n;
    return write_clock(lsi_instant_now(), lsi_wall_clock_ns());
}

/* A thread may bring spans after the end, which opens no file again. */
bool lsi_span_write(uint32_t thread, const char *thread_name,
                    const lsi_span *spans, size_t n)
{
    if (!open_for_spans)
        return false;
    if (write_all(thread, thread_name, spans, n))
        return true;
    if (fd >= 0) {
        lsi_log(LSI_LOG_WARN, "the trace in %s ends here: %s", folder,
                strerror(errno));
        close(fd);
    }
    fd = -1;
    open_for_spans = false;
    return false;
}

/* ---- beginning and end --------------------------------------------------- */

static ls_status make_folder(void)
{
    if (lsi_make_folders(folder) && access(folder, W_OK | X_OK) == 0)
        return LS_OK;
    return lsi_fail_errno(LS_ERR_IO, "cannot write traces to %s", folder);
}

static void register_end(void)
{
    (void)atexit(lsi_span_stop);
}

/* Under the lock. */
static ls_status start(const char *name)
{
    if (open_for_spans)
        return LS_OK;
    if (strlen(name) >= sizeof(folder))
        return lsi_fail(LS_ERR_IO,
                        "cannot write traces: the folder's name is too long");
    memcpy(folder, name, strlen(name) + 1);
    LS_TRY(make_folder());
    names_told = 0;
    written = 0;
    memset(thread_told, 0, sizeof(thread_told));
    started = lsi_instant_now();
    started_wall_ns = lsi_wall_clock_ns();
    open_for_spans = true;
    lsi_span_want(LSI_SPAN_TO_FILE, true);
    return LS_OK;
}

ls_status lsi_span_start(const char *name)
{
    static pthread_once_t registered = PTHREAD_ONCE_INIT;
    if (name == NULL)
        return LS_OK;
    lsi_span_lock();
    const ls_status status = start(name);
    lsi_span_unlock();
    if (status == LS_OK)
        pthread_once(&registered, register_end);
    return status;
}

/* Before main, so that all of the program is there. */
__attribute__((constructor)) static void begin_by_environment(void)
{
    const char *const name = getenv("LOCKSTEP_TRACE");
    if (name != NULL && name[0] != '\0' && lsi_span_start(name) != LS_OK)
        lsi_log(LSI_LOG_WARN, "LOCKSTEP_TRACE: %s", ls_last_error());
}

/* Under the lock. A process that has recorded nothing leaves no file. */
static void stop(void)
{
    if (!open_for_spans)
        return;
    lsi_span_want(LSI_SPAN_TO_FILE, false);
    lsi_span_flush_all();
    open_for_spans = false;
    if (fd < 0)
        return;
    put_number(written);
    if (!write_chunk('Z') || close(fd) != 0)
        lsi_log(LSI_LOG_WARN, "the trace in %s lacks its end: %s", folder,
                strerror(errno));
    fd = -1;
}

void lsi_span_stop(void)
{
    lsi_span_lock();
    stop();
    lsi_span_unlock();
}

/* The file stays its parent's. */
void lsi_span_forget(void)
{
    if (fd >= 0)
        close(fd);
    fd = -1;
    open_for_spans = false;
    rank = -1;
    used = 0;
}

/* Threads may open groups at once. */
void lsi_span_set_rank(int rank_of_process, int ranks, uint64_t job_of_ranks)
{
    lsi_span_lock();
    const bool first = rank < 0;
    if (first) {
        size = ranks;
        job = job_of_ranks;
        rank = rank_of_process;
    }
    lsi_span_unlock();
    if (!first)
        return;
    if (!lsi_span_is_written()) /* a process that another has forked */
        begin_by_environment();
    lsi_memory_record_set_rank(rank_of_process);
}

void lsi_span_get_rank(int32_t *rank_out, int32_t *size_out)
{
    *rank_out = rank;
    *size_out = *rank_out >= 0 ? size : 0;
}

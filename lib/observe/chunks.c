#include "observe/chunks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/restart.h"
#include "lockstep/version.h"
#include "observe/names.h"

/* ---- bytes --------------------------------------------------------------- */

static bool write_bytes(lsi_chunks *to, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    if (to->error == 0 && to->make_room != NULL)
        to->make_room(to, n);
    while (n > 0 && to->error == 0) {
        const ssize_t done = write(to->fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            to->error = done < 0 ? errno : EIO;
            break;
        }
        at += done;
        n -= (size_t)done;
        to->bytes += (uint64_t)done;
    }
    errno = to->error != 0 ? to->error : errno;
    return to->error == 0;
}

bool lsi_chunks_open(lsi_chunks *to, const char *path, bool fresh)
{
    to->error = 0;
    to->bytes = 0;
    to->used = 0;
    to->names_written = 0;
    to->rank_written = false;
    to->fd = -1;
    if (fresh && unlink(path) != 0 && errno != ENOENT)
        return false;
    to->fd = open(path,
                  O_WRONLY | O_CREAT | O_CLOEXEC |
                      (fresh ? O_EXCL | O_NOFOLLOW : O_TRUNC),
                  0666);
    return to->fd >= 0 &&
           (write_bytes(to, LSI_CHUNKS_MAGIC, LSI_CHUNKS_MAGIC_BYTES) ||
            lsi_chunks_close(to));
}

bool lsi_chunks_close(lsi_chunks *to)
{
    if (to->fd >= 0 && close(to->fd) != 0 && to->error == 0)
        to->error = errno;
    to->fd = -1;
    errno = to->error;
    return to->error == 0;
}

/* ---- chunks -------------------------------------------------------------- */

static unsigned char *put_number(unsigned char *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (unsigned char)(value | 0x80);
    *at++ = (unsigned char)value;
    return at;
}

void lsi_chunk_number(lsi_chunks *to, uint64_t value)
{
    to->used = (size_t)(put_number(to->chunk + to->used, value) - to->chunk);
}

bool lsi_chunks_line(lsi_chunks *to, char letter, const char *text, size_t n)
{
    const unsigned char head[5] = {
        (unsigned char)letter, (unsigned char)n, (unsigned char)(n >> 8),
        (unsigned char)(n >> 16), (unsigned char)(n >> 24)};
    return write_bytes(to, head, sizeof(head)) && write_bytes(to, text, n);
}

bool lsi_chunk_write(lsi_chunks *to, char letter)
{
    const size_t n = to->used;
    to->used = 0;
    return lsi_chunks_line(to, letter, (const char *)to->chunk, n);
}

bool lsi_chunks_text(lsi_chunks *to, char letter, uint32_t number,
                     const char *text)
{
    unsigned char both[LSI_NUMBER_BYTES + LSI_NAME_BYTES];
    unsigned char *const at = put_number(both, number);
    const size_t n = strnlen(text, LSI_NAME_BYTES);
    memcpy(at, text, n);
    return lsi_chunks_line(to, letter, (const char *)both,
                           (size_t)(at - both) + n);
}

bool lsi_chunks_names(lsi_chunks *to)
{
    for (const uint32_t n = lsi_names(); to->names_written < n;
         to->names_written++)
        if (!lsi_chunks_text(to, 'N', to->names_written,
                             lsi_name_at(to->names_written)))
            return false;
    return true;
}

static bool write_numbers(lsi_chunks *to, char letter, const uint64_t *number,
                          size_t n)
{
    unsigned char all[3 * LSI_NUMBER_BYTES], *at = all;
    for (size_t i = 0; i < n; i++)
        at = put_number(at, number[i]);
    return lsi_chunks_line(to, letter, (const char *)all, (size_t)(at - all));
}

bool lsi_chunks_clock(lsi_chunks *to, lsi_instant at, uint64_t wall_ns)
{
    return write_numbers(to, 'C', (uint64_t[]){at.ticks, at.ns, wall_ns}, 3);
}

bool lsi_chunks_end(lsi_chunks *to, uint64_t spans, uint64_t events)
{
    return write_numbers(to, 'Z', (uint64_t[]){spans, events}, 2);
}

/* ---- the header ---------------------------------------------------------- */

static _Atomic int own_rank = -1; /* the last to be known of these */
static int own_ranks;
static uint64_t own_job;

bool lsi_set_rank(int rank, int ranks, uint64_t job)
{
    if (own_rank >= 0)
        return false;
    own_ranks = ranks;
    own_job = job;
    own_rank = rank;
    return true;
}

void lsi_get_rank(int32_t *rank, int32_t *ranks)
{
    *rank = own_rank;
    *ranks = *rank >= 0 ? own_ranks : 0;
}

void lsi_forget_rank(void)
{
    own_rank = -1;
}

/* Processes with the same one run on the same monotonic clock. */
static void read_boot(char text[40])
{
    (void)lsi_proc_read("/proc/sys/kernel/random/boot_id", text, 37);
}

bool lsi_chunks_head(lsi_chunks *to, json_t *more)
{
    char host[HOST_NAME_MAX + 1] = "unknown", boot[40], job[24];
    int32_t rank, ranks;
    lsi_get_rank(&rank, &ranks);
    (void)gethostname(host, sizeof(host) - 1);
    read_boot(boot);
    snprintf(job, sizeof(job), "%016" PRIx64, rank >= 0 ? own_job : 0);
    json_t *const head = json_pack(
        "{s:i, s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:i}", "lockstep_trace",
        LSI_CHUNKS_VERSION, "version", ls_version_string(), "run",
        lsi_restart_run(), "rank", rank, "size", ranks, "job", job, "host",
        host, "boot", boot, "pid", (int)getpid());
    char *const text = head != NULL && json_object_update(head, more) == 0
                           ? json_dumps(head, JSON_COMPACT)
                           : NULL;
    json_decref(head);
    json_decref(more);
    if (text == NULL)
        to->error = ENOMEM;
    const bool good =
        text != NULL && lsi_chunks_line(to, 'H', text, strlen(text));
    to->rank_written = good && rank >= 0;
    free(text);
    return good;
}

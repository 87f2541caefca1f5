#include "launch/live_pages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#define LINK "/memfd:" LSI_LIVE_NAME

/* A descriptor of the page; -1 if this folder of /proc has none. */
static int open_page(DIR *folder, const char *path)
{
    char link[sizeof(LINK) + 16], name[320];
    for (const struct dirent *e; (e = readdir(folder)) != NULL;) {
        snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
        const ssize_t n = readlink(name, link, sizeof(link) - 1);
        if (n < (ssize_t)strlen(LINK))
            continue;
        link[n] = '\0';
        /* The name is followed by " (deleted)". */
        if (strncmp(link, LINK " ", strlen(LINK) + 1) == 0)
            return open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    }
    return -1;
}

static ls_status refuse(pid_t pid)
{
    return lsi_fail(
        LS_ERR_NOT_FOUND,
        "process %d has not taken an optimizer step or joined other ranks yet",
        (int)pid);
}

static ls_status refuse_version(pid_t pid)
{
    return lsi_fail(
        LS_ERR_FORMAT,
        "process %d uses another version of lockstep than this program",
        (int)pid);
}

static ls_status cannot_read(pid_t pid)
{
    return lsi_fail_errno(LS_ERR_SYSTEM, "cannot read the state of process %d",
                          (int)pid);
}

/*
 * A page without a size, seals or a version is not complete yet. A page without
 * seals could shrink while it is read, which matters when root reads pages of
 * other users.
 */
static ls_status map_page(int fd, pid_t pid, lsi_live_page **out)
{
    struct stat info;
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & LSI_LIVE_SEALS) != LSI_LIVE_SEALS)
        return refuse(pid);
    if (fstat(fd, &info) != 0 || info.st_size != sizeof(lsi_live_page))
        return refuse_version(pid);
    void *const at = mmap(NULL, sizeof(lsi_live_page), PROT_READ | PROT_WRITE,
                          MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return cannot_read(pid);
    *out = at;
    if ((*out)->version == LSI_LIVE_VERSION)
        return LS_OK;
    const bool made = (*out)->version != 0;
    lsi_live_close(out);
    return made ? refuse_version(pid) : refuse(pid);
}

ls_status lsi_live_open(lsi_live_page **out, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *const folder = opendir(path);
    if (folder == NULL && errno == ENOENT)
        return lsi_fail(LS_ERR_NOT_FOUND, "process %d does not exist",
                        (int)pid);
    if (folder == NULL)
        return cannot_read(pid);
    const int fd = open_page(folder, path);
    closedir(folder);
    if (fd < 0)
        return refuse(pid);
    const ls_status status = map_page(fd, pid, out);
    close(fd);
    return status;
}

void lsi_live_close(lsi_live_page **page)
{
    if (page != NULL && *page != NULL) {
        munmap(*page, sizeof(lsi_live_page));
        *page = NULL;
    }
}

/* Later loads return values that are at least as new. */
#define GET(field) atomic_load_explicit(&page->field, memory_order_acquire)

/* Copies text without control characters, since a terminal may show it. */
static void copy_text(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes - 1);
    to[bytes - 1] = '\0';
    for (char *at = to; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == '\x7f')
            *at = '?';
}

static void copy(lsi_live_page *page, lsi_live_look *out)
{
    const uint64_t names = atomic_load(&page->names);
    const uint64_t phase = GET(phase);
    *out = (lsi_live_look){.pid = page->pid,
                           .rank = page->rank,
                           .size = page->size,
                           .now_ns = lsi_clock_ns(),
                           .steps = GET(steps),
                           .samples = GET(samples),
                           .waited_ns = GET(waited_ns),
                           .watched_ns = GET(watched_ns),
                           .phase_ns = GET(phase_ns),
                           .waits_ns = GET(waits_ns),
                           .peak = GET(peak),
                           .names = names < LSI_LIVE_PHASES ? names
                                                            : LSI_LIVE_PHASES};
    for (size_t i = 0; i < LSI_LIVE_TAGS; i++)
        out->memory += GET(memory[i]);
    for (size_t i = 0; i < out->names; i++) {
        copy_text(out->name[i], page->name[i], LSI_LIVE_NAME_BYTES);
        out->busy_ns[i] = GET(busy_ns[i]);
    }
    memcpy(out->phase, out->name[phase < out->names ? phase : 0],
           LSI_LIVE_NAME_BYTES);
}

/*
 * A process that tests for a call has probably given it up if its last test is
 * older than this.
 */
#define TESTS_NS ((uint64_t)2 * 1000 * 1000 * 1000)

/* Copies the wait if it has lasted longer than the one in *out. */
static void copy_wait(lsi_live_wait *page, lsi_live_look *out)
{
    const uint64_t before = GET(changes), since = GET(since_ns);
    const uint64_t seen = GET(seen_ns);
    const bool over = page->tests != 0 && seen + TESTS_NS < out->now_ns;
    char call[LSI_LIVE_CALL_BYTES];
    const int awaits = page->awaits;
    copy_text(call, page->call, sizeof(call));
    /*
     * Keeps the copies above ahead of this: the thread sanitizer has no fences.
     */
    const uint64_t after = atomic_fetch_add(&page->changes, 0);
    if (since == 0 || over || before % 2 != 0 || after != before ||
        (out->waiting_ns != 0 && out->waiting_ns <= since))
        return;
    out->waiting_ns = since;
    out->awaits = awaits;
    memcpy(out->call, call, sizeof(call));
}

/*
 * Repeats the copy while a step ends. A process stopped at that moment is shown
 * as it is.
 */
void lsi_live_read(lsi_live_page *page, lsi_live_look *out)
{
    enum { TRIES = 1000 };
    atomic_store_explicit(&page->looked_ns, lsi_clock_ns(),
                          memory_order_relaxed);
    for (int i = 0; i < TRIES; i++) {
        const uint64_t before =
            atomic_load_explicit(&page->changes, memory_order_acquire);
        copy(page, out);
        for (size_t w = 0; w < LSI_LIVE_WAITS; w++)
            copy_wait(&page->wait[w], out);
        if (before % 2 == 0 && GET(changes) == before)
            return;
    }
}

/* ---- in words ------------------------------------------------------------ */

static double seconds_since(const lsi_live_look *look, uint64_t ns)
{
    return ns < look->now_ns ? (double)(look->now_ns - ns) * 1e-9 : 0;
}

/* Includes the phase, if the process reports it and is in one. */
static void waiting_text(const lsi_live_look *look, char text[LSI_LIVE_TEXT])
{
    char awaited[32] = "";
    const bool phase = look->watched_ns != 0 && look->names > 0 &&
                       strcmp(look->phase, look->name[0]) != 0;
    if (look->awaits >= 0)
        snprintf(awaited, sizeof(awaited), " for rank %d", look->awaits);
    snprintf(text, LSI_LIVE_TEXT, "%s%sin %s, waiting%s",
             phase ? look->phase : "", phase ? ", " : "", look->call, awaited);
}

double lsi_live_text(const lsi_live_look *look, char text[LSI_LIVE_TEXT])
{
    if (look == NULL || (look->steps == 0 && look->waiting_ns == 0)) {
        snprintf(text, LSI_LIVE_TEXT, "no step reported yet");
        return -1;
    }
    const bool reports_phase = look->watched_ns != 0;
    if (look->waiting_ns != 0) {
        waiting_text(look, text);
        return seconds_since(look, look->waiting_ns);
    }
    const uint64_t since =
        look->waits_ns != 0 ? look->waits_ns : look->phase_ns;
    snprintf(text, LSI_LIVE_TEXT, "%s%s", reports_phase ? look->phase : "",
             reports_phase && look->waits_ns != 0 ? ", waiting" : "");
    return reports_phase ? seconds_since(look, since) : -1;
}

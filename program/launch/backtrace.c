/* Backtraces from crash files; see backtrace.h. */
#include "launch/backtrace.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "launch/signals.h"

enum { CRASH_FILE_BYTES = 16 << 20, TEXT_BYTES = 64 << 10 };

/* ---- the file --------------------------------------------------------- */

/* Takes a word that must come next; the text is followed by a zero. */
static bool skip_word(const char **at, const char *word)
{
    const size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

static bool parse_number(const char **at, int base, uint64_t *value)
{
    char *end;
    if (strchr("0123456789abcdef", **at) == NULL || **at == '\0')
        return false;
    *value = strtoull(*at, &end, base);
    *at = end;
    return true;
}

static bool parse_head(const char **at, lsi_crash *crash)
{
    uint64_t number, address, pid, thread;
    if (!skip_word(at, "lockstep crash 1\nsignal ") ||
        !parse_number(at, 10, &number))
        return false;
    if (!skip_word(at, " sent") &&
        (!skip_word(at, " address 0x") || !parse_number(at, 16, &address)))
        return false;
    if (!skip_word(at, " pid ") || !parse_number(at, 10, &pid) ||
        !skip_word(at, " thread ") || !parse_number(at, 10, &thread) ||
        !skip_word(at, "\n"))
        return false;
    crash->signal = number < 65 ? (int)number : 0;
    crash->pid = pid <= INT32_MAX ? (int)pid : 0;
    crash->thread = thread <= INT32_MAX ? (int)thread : 0;
    return true;
}

/* A line that not every crash has. */
static bool parse_note(const char **at, lsi_crash *crash)
{
    if (!skip_word(at, "note "))
        return true;
    crash->note = *at;
    crash->note_bytes = strcspn(*at, "\n");
    *at += crash->note_bytes;
    return skip_word(at, "\n");
}

static bool parse_frame(const char **at, lsi_crash *crash)
{
    uint64_t pc;
    if (!skip_word(at, "0x") || !parse_number(at, 16, &pc))
        return false;
    const bool is_call = skip_word(at, " call");
    if (!skip_word(at, "\n"))
        return false;
    if (crash->n < LSI_CRASH_FRAMES) {
        crash->frames[crash->n].pc = pc;
        crash->frames[crash->n++].is_call = is_call;
    }
    return true;
}

ls_status lsi_crash_parse(const char *text, size_t bytes, lsi_crash *crash)
{
    const char *at = text;
    *crash = (lsi_crash){0};
    bool good = memchr(text, '\0', bytes) == NULL && parse_head(&at, crash) &&
                parse_note(&at, crash);
    while (good && strncmp(at, "0x", 2) == 0)
        good = parse_frame(&at, crash);
    if (!good || !skip_word(&at, "maps\n") || crash->n == 0)
        return lsi_fail(
            LS_ERR_FORMAT,
            "this is not a lockstep crash file, or it is incomplete");
    crash->maps = at;
    crash->maps_bytes = bytes - (size_t)(at - text);
    return LS_OK;
}

/* ---- where an address lies -------------------------------------------- */

typedef struct mapping {
    uint64_t begin, end;
    const char *name;
    size_t length;
} mapping;

/* "begin-end rwxp offset device inode   name"; *at moves to the next line. */
static bool next_mapping(const char **at, const char *end, mapping *m)
{
    while (*at < end) {
        const char *const line_end = memchr(*at, '\n', (size_t)(end - *at));
        const char *const stop = line_end == NULL ? end : line_end;
        const char *p = *at;
        *at = line_end == NULL ? end : line_end + 1;
        if (!parse_number(&p, 16, &m->begin) || !skip_word(&p, "-") ||
            !parse_number(&p, 16, &m->end))
            continue;
        m->name = p < stop ? memchr(p, '/', (size_t)(stop - p)) : NULL;
        m->length = m->name == NULL ? 0 : (size_t)(stop - m->name);
        return true;
    }
    return false;
}

const char *lsi_crash_module(const lsi_crash *crash, uint64_t pc,
                             size_t *length, uint64_t *offset)
{
    const char *at = crash->maps;
    const char *const end = at + crash->maps_bytes;
    mapping m, first = {0};
    while (next_mapping(&at, end, &m)) {
        if (m.name == NULL)
            continue;
        if (first.name == NULL || first.length != m.length ||
            memcmp(first.name, m.name, m.length) != 0)
            first = m;
        if (pc < m.begin || pc >= m.end)
            continue;
        *length = m.length;
        *offset = pc - first.begin;
        return m.name;
    }
    return NULL;
}

/* ---- text ------------------------------------------------------------- */

static void print_frame(FILE *out, const lsi_crash *crash, int i,
                        lsi_symbols *symbols)
{
    const uint64_t pc = crash->frames[i].pc;
    const uint64_t in = crash->frames[i].is_call ? pc - 1 : pc;
    char what[1024];
    size_t length;
    uint64_t offset;
    const char *const module = lsi_crash_module(crash, in, &length, &offset);
    if (symbols == NULL || !lsi_symbols_find(symbols, in, what, sizeof(what)))
        snprintf(what, sizeof(what), "0x%" PRIx64, pc);
    if (module == NULL)
        fprintf(out, "#%-2d %s\n", i, what);
    else
        fprintf(out, "#%-2d %s (%.*s+0x%" PRIx64 ")\n", i, what,
                (int)(length < 4096 ? length : 4096), module,
                offset + (pc - in));
}

static void print_crash(FILE *out, const lsi_crash *crash, pid_t pid)
{
    lsi_symbols *const symbols = lsi_symbols_open(crash);
    if (crash->pid != (int)pid)
        fprintf(out, "in process %d, which the rank had started:\n",
                crash->pid);
    else if (crash->thread != crash->pid)
        fprintf(out, "in thread %d:\n", crash->thread);
    if (crash->note != NULL)
        fprintf(out, "%.*s\n", (int)crash->note_bytes, crash->note);
    for (int i = 0; i < crash->n; i++)
        print_frame(out, crash, i, symbols);
}

/* In a separate process: damaged files may crash it. */
static _Noreturn void print_and_exit(const char *path, pid_t pid, int to)
{
    char *text;
    size_t bytes;
    lsi_crash crash;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    unsetenv("DEBUGINFOD_URLS"); /* no downloads */
    FILE *const out = fdopen(to, "w");
    if (out == NULL ||
        lsi_read_regular(path, CRASH_FILE_BYTES, &text, &bytes) != LS_OK ||
        lsi_crash_parse(text, bytes, &crash) != LS_OK)
        _exit(1);
    print_crash(out, &crash, pid);
    fclose(out);
    _exit(0);
}

static bool is_asked_to_end(pid_t parent)
{
    sigset_t pending;
    sigpending(&pending);
    for (int number = 1; number < NSIG; number++) {
        if (lsi_signal_ends(number) && sigismember(&pending, number) == 1)
            return true;
    }
    return getppid() != parent;
}

/* All text that arrives in time; "" if none does. */
static void read_text(int fd, double seconds, char *text, size_t room)
{
    const double until = lsi_clock_seconds() + seconds;
    const pid_t parent = getppid();
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    size_t used = 0;
    while (used + 1 < room && lsi_clock_seconds() < until &&
           !is_asked_to_end(parent)) {
        if (poll(&polled, 1, 50) <= 0)
            continue;
        const ssize_t bytes = read(fd, text + used, room - used - 1);
        if (bytes <= 0)
            break;
        used += (size_t)bytes;
    }
    text[used] = '\0';
}

char *lsi_backtrace_of(const char *path, pid_t pid, double seconds)
{
    int ends[2];
    if (access(path, R_OK) != 0 || pipe(ends) != 0)
        return NULL;
    char *const text = calloc(TEXT_BYTES, 1);
    const pid_t child = text == NULL ? -1 : fork();
    if (child == 0) {
        close(ends[0]);
        print_and_exit(path, pid, ends[1]);
    }
    close(ends[1]);
    if (child > 0) {
        read_text(ends[0], seconds, text, TEXT_BYTES);
        kill(child, SIGKILL);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    close(ends[0]);
    if (text != NULL && text[0] != '\0')
        return text;
    free(text);
    return NULL;
}

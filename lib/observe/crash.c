/*
 * The file is text:
 *
 *     lockstep crash 1
 *     signal 11 address 0x0 pid 17 thread 17, or: signal 6 sent pid ...
 *     note cannot access ...   if the memory has a name
 *     0x55d0c0de1139       where it crashed
 *     0x55d0c0de1185 call  behind the call that led there, and so on
 *     maps
 *     ...                  /proc/self/maps
 */
#include "observe/crash.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "base/log.h"
#include "base/signal_stack.h"

enum { MAX_FRAMES = 64, SEEN_FRAMES = 80 };

static char path[PATH_MAX];

/* 0: nobody has crashed; 1: a thread writes; DONE: it has written. */
enum { DONE = -1 };
static atomic_int writer;

/* ---- writing, with nothing but write() -------------------------------- */

typedef struct line {
    size_t used;
    char text[1024];
} line;

static void add_text(line *l, const char *text)
{
    while (*text != '\0' && l->used < sizeof(l->text))
        l->text[l->used++] = *text++;
}

static void add_number(line *l, const char *before, uint64_t value,
                       unsigned base)
{
    char digits[24];
    size_t at = sizeof(digits);
    digits[--at] = '\0';
    do {
        digits[--at] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value > 0);
    add_text(l, before);
    add_text(l, digits + at);
}

static void put(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t written = write(fd, data, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return;
        data += written;
        bytes -= (size_t)written;
    }
}

static void put_line(int fd, line *l)
{
    add_text(l, "\n");
    put(fd, l->text, l->used);
    l->used = 0;
}

static void put_maps(int fd)
{
    char data[4096];
    const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps < 0)
        return;
    ssize_t bytes;
    while ((bytes = read(maps, data, sizeof(data))) > 0)
        put(fd, data, (size_t)bytes);
    close(maps);
}

/* ---- frames ----------------------------------------------------------- */

typedef struct frames {
    uintptr_t pc[SEEN_FRAMES];
    bool is_call[SEEN_FRAMES]; /* the address is behind a call */
    int n;
} frames;

static _Unwind_Reason_Code see(struct _Unwind_Context *context, void *to)
{
    frames *const f = to;
    int before = 0;
    const uintptr_t pc = (uintptr_t)_Unwind_GetIPInfo(context, &before);
    if (f->n == SEEN_FRAMES || pc == 0)
        return _URC_END_OF_STACK;
    f->pc[f->n] = pc;
    f->is_call[f->n++] = before == 0;
    return _URC_NO_REASON;
}

static uintptr_t crashed_at(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)context->uc_mcontext.pc;
#else
    (void)context;
    return 0;
#endif
}

/* The caller of a function that does not exist, when nothing can be unwound. */
static uintptr_t caller_of(const ucontext_t *context)
{
#if defined(__x86_64__)
    uintptr_t *const stack =
        (uintptr_t *)(uintptr_t)context->uc_mcontext.gregs[REG_RSP];
    return *stack;
#elif defined(__aarch64__)
    return (uintptr_t)context->uc_mcontext.regs[30];
#else
    (void)context;
    return 0;
#endif
}

static void put_frame(int fd, uintptr_t pc, bool is_call)
{
    line l = {0};
    add_number(&l, "0x", pc, 16);
    add_text(&l, is_call ? " call" : "");
    put_line(fd, &l);
}

/* Those of the handler stand first, and are left out. */
static void put_frames(int fd, const ucontext_t *context)
{
    static frames f;
    const uintptr_t pc = crashed_at(context);
    int first = 0;
    put_frame(fd, pc, false);
    _Unwind_Backtrace(see, &f);
    while (first < f.n && f.pc[first] != pc)
        first++;
    for (int i = first + 1; i < f.n && i - first < MAX_FRAMES; i++)
        put_frame(fd, f.pc[i], f.is_call[i]);
    if (first == f.n)
        put_frame(fd, caller_of(context), true);
}

/* ---- names ------------------------------------------------------------ */

enum { MAX_PLACES = 16 };
static _Atomic(const lsi_crash_place *) places[MAX_PLACES];

/* A name is the program's: it may have any bytes. */
static void add_name(line *l, const char *name)
{
    for (; *name != '\0' && l->used < sizeof(l->text) / 2; name++)
        l->text[l->used++] = (unsigned char)*name < ' ' ? '?' : *name;
}

/* The place that the process may not access, and the name of the address. */
static const lsi_crash_place *find_place(int number, const siginfo_t *info,
                                         const char **name)
{
    for (int i = 0;
         i < MAX_PLACES && number == SIGSEGV && info->si_code == SEGV_ACCERR;
         i++) {
        const lsi_crash_place *const p = atomic_load(&places[i]);
        if (p != NULL && (*name = p->name_at(p->context, info->si_addr)))
            return p;
    }
    return NULL;
}

/* On stderr without a file. */
static void put_note(int fd, const lsi_crash_place *place, const char *name,
                     const siginfo_t *info)
{
    line l = {0};
    if (fd >= 0)
        add_text(&l, "note ");
    else
        add_number(&l, "lockstep[", (uint64_t)place->rank, 10);
    add_text(&l, fd >= 0 ? "" : "] error: ");
    add_number(&l, "cannot access 0x", (uintptr_t)info->si_addr, 16);
    add_text(&l, " in '");
    add_name(&l, name);
    add_text(&l, "': ");
    add_text(&l, place->reason);
    if (fd >= 0) {
        put_line(fd, &l);
    } else {
        add_text(&l, "\n");
        lsi_log_write(l.text, l.used);
    }
}

/* ---- the file --------------------------------------------------------- */

static void put_crash(int number, const siginfo_t *info,
                      const ucontext_t *context)
{
    const char *name = NULL;
    const lsi_crash_place *const place = find_place(number, info, &name);
    if (path[0] == '\0') {
        if (place != NULL)
            put_note(-1, place, name, info);
        return;
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    line l = {0};
    if (fd < 0)
        return;
    add_text(&l, "lockstep crash 1\n");
    add_number(&l, "signal ", (uint64_t)number, 10);
    add_text(&l, info->si_code <= 0 ? " sent" : "");
    if (info->si_code > 0)
        add_number(&l, " address 0x", (uintptr_t)info->si_addr, 16);
    add_number(&l, " pid ", (uint64_t)getpid(), 10);
    add_number(&l, " thread ", (uint64_t)gettid(), 10);
    put_line(fd, &l);
    if (place != NULL)
        put_note(fd, place, name, info);
    put_frames(fd, context);
    put(fd, "maps\n", 5);
    put_maps(fd);
    close(fd);
}

/* ---- signals ---------------------------------------------------------- */

/* Threads that crash meanwhile wait, or the file would end in the middle. */
static void await_writer(void)
{
    const struct timespec while_ = {.tv_nsec = 10000000};
    for (int i = 0; i < 500 && atomic_load(&writer) != DONE; i++)
        nanosleep(&while_, NULL);
}

/*
 * Behind it the instruction that crashed is run again, and ends the process; a
 * signal that was sent is sent again.
 */
static void on_crash(int number, siginfo_t *info, void *context)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    const int error_before = errno;
    int nobody = 0;
    if (atomic_compare_exchange_strong(&writer, &nobody, 1)) {
        put_crash(number, info, context);
        atomic_store(&writer, DONE);
    } else {
        await_writer();
    }
    sigaction(number, &usual, NULL);
    if (info->si_code <= 0)
        (void)syscall(SYS_tgkill, getpid(), gettid(), number);
    errno = error_before;
}

static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { COUNT = sizeof(numbers) / sizeof(numbers[0]) };

/* Handles the first n signals, each unless the program does so itself. */
static void handle(int n)
{
    struct sigaction action = {.sa_sigaction = on_crash,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK};
    lsi_use_signal_stack();
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < COUNT; i++)
        sigaddset(&action.sa_mask, numbers[i]);
    for (int i = 0; i < n; i++) {
        struct sigaction own;
        if (sigaction(numbers[i], NULL, &own) == 0 && own.sa_handler == SIG_DFL)
            (void)sigaction(numbers[i], &action, NULL);
    }
}

static void install(void)
{
    const char *const wanted = getenv("LOCKSTEP_CRASH_FILE");
    if (wanted == NULL || wanted[0] != '/' || strlen(wanted) >= sizeof(path))
        return;
    memcpy(path, wanted, strlen(wanted) + 1);
    handle(COUNT);
}

void lsi_watch_crashes(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, install);
}

static void replace(const lsi_crash_place *from, const lsi_crash_place *to)
{
    for (int i = 0; i < MAX_PLACES; i++) {
        const lsi_crash_place *expected = from;
        if (atomic_compare_exchange_strong(&places[i], &expected, to))
            return;
    }
}

void lsi_crash_place_add(const lsi_crash_place *place)
{
    lsi_watch_crashes();
    replace(NULL, place);
    handle(1); /* SIGSEGV, also without a file */
}

void lsi_crash_place_remove(const lsi_crash_place *place)
{
    replace(place, NULL);
}

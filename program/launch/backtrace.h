/*
 * Backtraces of processes that have crashed, from the files that they leave
 * behind (observe/crash.h). With libdw addresses get names and lines; without
 * it they are places in files, which addr2line understands.
 */
#ifndef LS_LAUNCH_BACKTRACE_H
#define LS_LAUNCH_BACKTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lockstep/status.h"

enum { LSI_CRASH_FRAMES = 64 };

/* What such a file says. */
typedef struct lsi_crash {
    int signal;
    int pid, thread;
    struct {
        uint64_t pc;
        bool is_call; /* the function is that of the byte before */
    } frames[LSI_CRASH_FRAMES];
    int n;
    const char *maps; /* in the text */
    size_t maps_bytes;
} lsi_crash;

/* LS_ERR_FORMAT if it is not one, also if it ends in the middle. */
ls_status lsi_crash_parse(const char *text, size_t bytes, lsi_crash *crash);

/*
 * The mapped file that an address lies in, and how far from its beginning. The
 * name has *length bytes in `maps`; NULL if it lies in none.
 */
const char *lsi_crash_module(const lsi_crash *crash, uint64_t pc,
                             size_t *length, uint64_t *offset);

/*
 * Lines of text for a crash file, "#0 function+0x1f at file.c:12
 * (program+0x1139)" and so on, to be freed with free(). It is made by a process
 * of its own, which may take `seconds`, and is given up when a signal comes
 * that asks this one to end. NULL if there is no such file or it makes no
 * sense. The first line says which process it was, if that is not `pid`.
 */
char *lsi_backtrace_of(const char *path, pid_t pid, double seconds);

/* As lsi_backtrace_of does it, on a stream; backtrace_dw.c or _plain.c. */
struct lsi_symbols;
typedef struct lsi_symbols lsi_symbols;
lsi_symbols *lsi_symbols_open(const lsi_crash *crash);

/*
 * "function+0x1f at file.c:12" in out[room]; false if nothing is known of the
 * address.
 */
bool lsi_symbols_find(lsi_symbols *symbols, uint64_t pc, char *out,
                      size_t room);

#endif

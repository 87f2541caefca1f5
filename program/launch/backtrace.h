/*
 * Backtraces of crashed processes, from the files that they leave
 * (observe/crash.h). With libdw addresses get names and lines. Without it they
 * are offsets in files, which addr2line understands.
 */
#ifndef LS_LAUNCH_BACKTRACE_H
#define LS_LAUNCH_BACKTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lockstep/status.h"

enum { LSI_CRASH_FRAMES = 64 };

/* Contents of a crash file. */
typedef struct lsi_crash {
    int signal;
    int pid, thread;
    const char *note; /* the sentence on the address, in the text; or NULL */
    size_t note_bytes;
    struct {
        uint64_t pc;
        bool is_call; /* look up the byte before the address */
    } frames[LSI_CRASH_FRAMES];
    int n;
    const char *maps; /* /proc/self/maps, as part of the text */
    size_t maps_bytes;
} lsi_crash;

/* LS_ERR_FORMAT if the text is not a crash file, or ends in the middle. */
ls_status lsi_crash_parse(const char *text, size_t bytes, lsi_crash *crash);

/*
 * The mapped file that contains an address, and the offset of the address in
 * it. The name has *length bytes in `maps`; NULL if no file contains it.
 */
const char *lsi_crash_module(const lsi_crash *crash, uint64_t pc,
                             size_t *length, uint64_t *offset);

/*
 * Lines of text for a crash file, "#0 function+0x1f at file.c:12
 * (program+0x1139)" and so on, freed with free(). NULL if the file does not
 * exist or is not valid. The first line names the process, if it is not `pid`.
 *
 * A separate process makes the text within `seconds`. It is given up when this
 * process receives a signal to end.
 */
char *lsi_backtrace_of(const char *path, pid_t pid, double seconds);

/* Symbols for lsi_backtrace_of, in backtrace_dw.c or _plain.c. */
struct lsi_symbols;
typedef struct lsi_symbols lsi_symbols;
lsi_symbols *lsi_symbols_open(const lsi_crash *crash);

/* "function+0x1f at file.c:12" in out[room]; false for an unknown address. */
bool lsi_symbols_find(lsi_symbols *symbols, uint64_t pc, char *out,
                      size_t room);

#endif

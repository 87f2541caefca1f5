/* Files that the kernel writes while they are read: those of /proc and /sys. */
#ifndef LS_BASE_PROC_H
#define LS_BASE_PROC_H

#include <dirent.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

/*
 * Reads a file by one call: at most room - 1 bytes, with a zero behind them.
 * Returns their number. On failure returns -1 (errno), and the text is "".
 */
ssize_t lsi_proc_read(const char *path, char *text, size_t room);

/* The next line of a text; NULL after the last. */
static inline const char *lsi_next_line(const char *line)
{
    const char *const end = strchr(line, '\n');
    return end == NULL ? NULL : end + 1;
}

/* A process, read from /proc/PID/stat. */
typedef struct lsi_process_stat {
    char state; /* Z: it has ended, and is not reaped */
    pid_t parent;
    unsigned long flags;        /* PF_... of linux/sched.h */
    unsigned long long started; /* in clock ticks since the boot */
    int processor;              /* where it ran last */
} lsi_process_stat;

/* False if the process is gone. */
bool lsi_process_stat_read(pid_t pid, lsi_process_stat *out);

/* Seconds since the process was started. */
double lsi_process_seconds(const lsi_process_stat *stat);

/* The beginning of /proc/PID/name in out[room]; its length, 0 without one. */
size_t lsi_process_file(pid_t pid, const char *name, char *out, size_t room);

/* The next process in the open folder /proc; 0 after the last. */
pid_t lsi_next_process(DIR *proc);

/* The parent of a process; 0 if the process is gone. */
pid_t lsi_parent_of(pid_t pid);

#endif

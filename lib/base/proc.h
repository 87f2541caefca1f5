/* Files that the kernel writes while they are read: those of /proc and /sys. */
#ifndef LS_BASE_PROC_H
#define LS_BASE_PROC_H

#include <sys/types.h>

/*
 * Reads a file by one call: at most room - 1 bytes, with a zero behind them.
 * Returns their number. On failure returns -1 (errno), and the text is "".
 */
ssize_t lsi_proc_read(const char *path, char *text, size_t room);

#endif

/*
 * The highest rates of this machine, as they are kept in the user's cache
 * folder (XDG_CACHE_HOME, or ~/.cache): a file for each number of threads.
 */
#ifndef LS_CLI_COMMANDS_KEPT_PEAKS_H
#define LS_CLI_COMMANDS_KEPT_PEAKS_H

#include <stdbool.h>
#include <stddef.h>

#include "report/profile.h"

/* The file. Makes its folder, too. False if there is no place for it. */
bool lsi_kept_peaks_path(int threads, char *out, size_t bytes);

/* False if the file has none of this processor and level of instructions. */
bool lsi_kept_peaks_read(const char *path, lsi_profile_peaks *out);

/* Rates that cannot be kept are measured again the next time. */
void lsi_kept_peaks_write(const char *path, const lsi_profile_peaks *peaks);

#endif

/*
 * The settings of a selection line that are not algorithms (comm/api/select.h):
 * the size of chunks in the windows, and for how long ranks spin.
 */
#ifndef LS_CLI_BENCH_TUNE_SETTINGS_H
#define LS_CLI_BENCH_TUNE_SETTINGS_H

#include <stddef.h>

#include "lockstep/group.h"

enum { LSI_TUNE_SETTINGS_BYTES = 1 << 20 }; /* of each buffer */

/*
 * Measures both and writes "window:64k,spins:80," to text. With more ranks than
 * CPUs, or on several nodes, neither matters, and the text is "". Collective;
 * the same text on all ranks. `send` and `recv` are private memory.
 */
ls_status lsi_tune_settings(ls_group *group, float *send, float *recv,
                            char *text, size_t bytes);

#endif

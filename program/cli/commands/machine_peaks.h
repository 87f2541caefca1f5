/*
 * How fast this machine can be, for each number of threads: measured, and kept
 * for some time (kept_peaks.h).
 */
#ifndef LS_CLI_COMMANDS_MACHINE_PEAKS_H
#define LS_CLI_COMMANDS_MACHINE_PEAKS_H

#include <stdbool.h>

#include "report/profile.h"

/*
 * What is kept, or else measured: the largest rate of matrix products of f32
 * and bf16, and of memory that is added up, in some seconds. `again` measures
 * in any case.
 */
ls_status lsi_machine_peaks(int threads, bool again, lsi_profile_peaks *out);

/*
 * Of peaks that something was faster than: they were measured while the machine
 * did something else, and are again. The larger of each are kept.
 */
ls_status lsi_machine_peaks_raise(int threads, lsi_profile_peaks *peaks);

#endif

/*
 * How fast this machine can be, for each number of threads: measured, and kept
 * for some time (kept_peaks.h).
 */
#ifndef LS_CLI_COMMANDS_MACHINE_PEAKS_H
#define LS_CLI_COMMANDS_MACHINE_PEAKS_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/commands/kept_peaks.h"
#include "report/profile.h"

/* Rates of this machine, and where they come from. */
typedef struct lsi_machine_rates {
    int threads; /* 0: no rates yet */
    lsi_kept_peaks found;
    char path[LSI_PEAKS_PATH]; /* the file that keeps them; "": none does */
    char why[256];             /* none does */
} lsi_machine_rates;

/* Which rates are wanted. */
typedef struct lsi_rates_wanted {
    int threads;
    bool again; /* measure, whatever is kept */
    bool force; /* measure a busy machine, too, and use such rates */
} lsi_rates_wanted;

/*
 * The kept rates, or else measured ones, which takes some seconds: the largest
 * rates of matrix products of f32 and bf16, and of memory that is added up. If
 * a measurement is refused because the machine is busy, *refused is true as
 * well.
 */
ls_status lsi_machine_peaks(const lsi_rates_wanted *wanted,
                            lsi_machine_rates *out, bool *refused);

/*
 * Measures rates again that something exceeded, unless the machine is busy now:
 * they were measured while it did something else. Keeps the larger of each.
 */
ls_status lsi_machine_peaks_raise(lsi_machine_rates *rates, bool force);

/*
 * MiB over which the rate of memory is measured, as the tensors of a small
 * model take them. Large caches hold these; main memory may be several times
 * slower.
 */
enum { LSI_PEAKS_MIB = 64 };

/*
 * LS_ERR_STATE if other processes keep this machine busy (base/busy.h). `what`
 * names the measurement, and `why` is the clause that requires it, such as
 * "--verify is given". Watches for half a second.
 */
ls_status lsi_refuse_busy(const char *what, const char *why);

/*
 * "2026-11-26 on this machine (2 threads), kept in FILE"; or why they are not
 * kept. Also whether the machine was busy.
 */
enum { LSI_RATES_TEXT = LSI_PEAKS_PATH + 448 };
void lsi_machine_rates_text(const lsi_machine_rates *rates,
                            char out[LSI_RATES_TEXT]);

/* A paragraph: the rates, and that text. */
void lsi_machine_rates_print(const lsi_machine_rates *rates);

/* With the rates; a new reference, or NULL without memory. */
json_t *lsi_machine_rates_json(const lsi_machine_rates *rates);

#endif

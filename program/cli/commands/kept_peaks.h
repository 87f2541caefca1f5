/*
 * The highest rates of this machine, as they are kept in the user's cache
 * folder (XDG_CACHE_HOME, or ~/.cache): a file for each number of threads.
 */
#ifndef LS_CLI_COMMANDS_KEPT_PEAKS_H
#define LS_CLI_COMMANDS_KEPT_PEAKS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/profile.h"

/* For help texts; N stands for the number of threads. */
#define LSI_KEPT_PEAKS_HELP                                                    \
    "$XDG_CACHE_HOME/lockstep/peaks-N-threads.json (default: under ~/.cache)"

enum { LSI_PEAKS_DAYS = 30 };
enum { LSI_PEAKS_DATE = 16, LSI_PEAKS_PATH = 4096, LSI_PEAKS_WHY = 640 };

/* Conditions of rates, in addition to the number of threads. */
typedef struct lsi_peaks_place {
    char cpu[128];    /* model of the processor */
    char isa[32];     /* level of instructions in use */
    char kernel[128]; /* release of the kernel */
    char cpus[256];   /* CPUs that the process may use, "0-3,8" */
} lsi_peaks_place;

typedef struct lsi_kept_peaks {
    lsi_profile_peaks peaks;
    lsi_peaks_place place; /* where they were measured */
    int64_t measured;      /* time of the measurement, in seconds since 1970 */
    double others;         /* CPUs that other processes used meanwhile, of */
    int available;         /* CPUs that this one could use */
} lsi_kept_peaks;

/* Whether the machine was busy when they were measured (base/busy.h). */
bool lsi_kept_peaks_are_busy(const lsi_kept_peaks *kept);

/* This machine, for this process. */
void lsi_peaks_place_here(lsi_peaks_place *out);

/*
 * Whether rates do not hold any more at a place and a time: they are older than
 * LSI_PEAKS_DAYS, of another place, or of a busy machine. `why` completes
 * "the rates of DATE ...". With `force` those of a busy machine do hold.
 */
bool lsi_kept_peaks_expired(const lsi_kept_peaks *kept,
                            const lsi_peaks_place *here, int64_t now,
                            bool force, char why[LSI_PEAKS_WHY]);

/* "2026-11-26", in local time. */
void lsi_peaks_date(int64_t time, char out[LSI_PEAKS_DATE]);

/* As JSON: a new reference, or NULL without memory. And back: false if it is
 * something else.
 */
json_t *lsi_kept_peaks_json(const lsi_kept_peaks *kept);
bool lsi_kept_peaks_of_json(json_t *json, lsi_kept_peaks *out);

/* The path of the file. False without a folder for it. */
bool lsi_kept_peaks_path(int threads, char out[LSI_PEAKS_PATH]);

/* False if the file does not exist, or is not of the present format. */
bool lsi_kept_peaks_read(const char *path, lsi_kept_peaks *out);

/* Makes the folders, too. */
ls_status lsi_kept_peaks_write(const char *path, const lsi_kept_peaks *kept);

#endif

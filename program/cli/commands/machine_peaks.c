#include "cli/commands/machine_peaks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "array/compute/array.h"
#include "array/compute/dense.h"
#include "array/compute/threads.h"
#include "base/busy.h"
#include "base/cache_path.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "report/paragraph.h"

enum { EXTENT = 1024, FLOATS = LSI_PEAKS_MIB << 18, RUNS = 5 };

/* Least seconds to measure a rate: a short load does not matter then. */
static const double least_seconds = 0.2;

/* ---- measuring ----------------------------------------------------------- */

static bool goes_on(int run, double first)
{
    return run < RUNS || lsi_clock_seconds() - first < least_seconds;
}

/* The shortest of some runs after the first, which plans. */
static ls_status measure_product(ls_dtype dtype, float *memory, double *rate)
{
    const size_t n = (size_t)EXTENT * EXTENT;
    const lsi_gemm_shape shape = {.m = EXTENT,
                                  .n = EXTENT,
                                  .k = EXTENT,
                                  .lda = EXTENT,
                                  .ldb = EXTENT,
                                  .ldc = EXTENT,
                                  .ab_dtype = dtype,
                                  .c_dtype = LS_F32};
    double seconds = INFINITY;
    const double first = lsi_clock_seconds();
    for (int i = 0; goes_on(i, first); i++) {
        const double begin = lsi_clock_seconds();
        LS_TRY(lsi_gemm_run(&shape, memory, memory + n, memory + 2 * n, NULL));
        if (i > 0)
            seconds = fmin(seconds, lsi_clock_seconds() - begin);
    }
    *rate = 2.0 * EXTENT * EXTENT * EXTENT / seconds;
    return LS_OK;
}

static double measure_memory(float *memory)
{
    const size_t n = FLOATS / 3;
    double seconds = INFINITY;
    const double first = lsi_clock_seconds();
    for (int i = 0; goes_on(i, first); i++) {
        const double begin = lsi_clock_seconds();
        lsi_array_add(memory, memory + n, memory + 2 * n, n);
        seconds = fmin(seconds, lsi_clock_seconds() - begin);
    }
    return 12.0 * (double)n / seconds;
}

static ls_status measure(int threads, lsi_profile_peaks *out)
{
    void *memory;
    LS_TRY(lsi_alloc_zeroed(&memory, FLOATS * sizeof(float),
                            LS_MEMORY_WORKSPACE, "measuring the peak rates"));
    lsi_threads_set(threads);
    ls_status status = measure_product(LS_F32, memory, &out->f32);
    if (status == LS_OK)
        status = measure_product(LS_BF16, memory, &out->bf16);
    out->bytes = measure_memory(memory);
    lsi_free(memory);
    return status;
}

/* ---- measured before, or now --------------------------------------------- */

/* Where they are to be kept and what they depend on. */
static void prepare(int threads, lsi_machine_rates *out)
{
    *out = (lsi_machine_rates){.threads = threads};
    lsi_peaks_place_here(&out->found.place);
    if (!lsi_kept_peaks_path(threads, out->path)) {
        out->path[0] = '\0';
        snprintf(out->why, sizeof(out->why), "%s", LSI_NO_CACHE_PATH);
    }
}

/* Notes the CPUs that other processes use now. */
static void measure_load(lsi_kept_peaks *kept)
{
    kept->others = 0;
    kept->available = lsi_cpus_available();
    (void)lsi_busy_now(&kept->others, &kept->available);
}

static ls_status refuse(const lsi_kept_peaks *found, const char *what,
                        const char *why)
{
    return lsi_fail(LS_ERR_STATE,
                    "must measure %s, because %s, but other processes use %.1f "
                    "of the %d CPUs. Wait until they end, or give --force",
                    what, why, found->others, found->available);
}

ls_status lsi_refuse_busy(const char *what, const char *why)
{
    lsi_kept_peaks now;
    measure_load(&now);
    return lsi_kept_peaks_are_busy(&now) ? refuse(&now, what, why) : LS_OK;
}

/*
 * Lowers no rate found already. A rate that cannot be kept is measured again.
 */
static ls_status measure_and_keep(lsi_machine_rates *rates)
{
    lsi_profile_peaks *const peaks = &rates->found.peaks;
    const lsi_profile_peaks old = *peaks;
    LS_TRY(measure(rates->threads, peaks));
    peaks->f32 = fmax(peaks->f32, old.f32);
    peaks->bf16 = fmax(peaks->bf16, old.bf16);
    peaks->bytes = fmax(peaks->bytes, old.bytes);
    rates->found.measured = (int64_t)lsi_wall_clock_seconds();
    if (rates->path[0] != '\0' &&
        lsi_kept_peaks_write(rates->path, &rates->found) != LS_OK) {
        rates->path[0] = '\0';
        snprintf(rates->why, sizeof(rates->why), "%s", ls_last_error());
    }
    return LS_OK;
}

/* Uses the kept rates; if it cannot, `why` has the reason. */
static bool use_kept(bool force, lsi_machine_rates *out,
                     char why[LSI_RATES_TEXT])
{
    char reason[LSI_PEAKS_WHY], date[LSI_PEAKS_DATE];
    lsi_kept_peaks kept;
    if (!lsi_kept_peaks_read(out->path, &kept)) {
        snprintf(why, LSI_RATES_TEXT, "'%s' contains no rates", out->path);
        return false;
    }
    if (lsi_kept_peaks_expired(&kept, &out->found.place,
                               (int64_t)lsi_wall_clock_seconds(), force,
                               reason)) {
        lsi_peaks_date(kept.measured, date);
        snprintf(why, LSI_RATES_TEXT, "the rates of %s %s", date, reason);
        return false;
    }
    out->found = kept;
    return true;
}

ls_status lsi_machine_peaks(const lsi_rates_wanted *wanted,
                            lsi_machine_rates *out, bool *refused)
{
    char why[LSI_RATES_TEXT] = "--measure is given";
    *refused = false;
    prepare(wanted->threads, out);
    if (out->path[0] == '\0')
        snprintf(why, sizeof(why), "rates cannot be saved (%s)", out->why);
    else if (!wanted->again && use_kept(wanted->force, out, why))
        return LS_OK;
    measure_load(&out->found);
    *refused = !wanted->force && lsi_kept_peaks_are_busy(&out->found);
    return *refused ? refuse(&out->found, "the peak rates of this machine", why)
                    : measure_and_keep(out);
}

ls_status lsi_machine_peaks_raise(lsi_machine_rates *rates, bool force)
{
    const lsi_kept_peaks old = rates->found;
    measure_load(&rates->found);
    if (force || !lsi_kept_peaks_are_busy(&rates->found))
        return measure_and_keep(rates);
    rates->found = old;
    return LS_OK;
}

/* ---- where they come from ------------------------------------------------ */

void lsi_machine_rates_text(const lsi_machine_rates *rates,
                            char out[LSI_RATES_TEXT])
{
    const bool kept = rates->path[0] != '\0';
    char date[LSI_PEAKS_DATE], busy[64] = "";
    lsi_peaks_date(rates->found.measured, date);
    if (lsi_kept_peaks_are_busy(&rates->found))
        snprintf(busy, sizeof(busy),
                 " while other processes used %.1f of the %d CPUs",
                 rates->found.others, rates->found.available);
    snprintf(out, LSI_RATES_TEXT, "%s on this machine (%d thread%s)%s, %s%s%s",
             date, rates->threads, rates->threads == 1 ? "" : "s", busy,
             kept ? "kept in " : "not kept (", kept ? rates->path : rates->why,
             kept ? "" : ")");
}

void lsi_machine_rates_print(const lsi_machine_rates *rates)
{
    const lsi_profile_peaks *const peaks = &rates->found.peaks;
    char source[LSI_RATES_TEXT];
    lsi_machine_rates_text(rates, source);
    lsi_paragraph(stdout,
                  "Peak rates of this machine: %.1f GFLOP/s in f32, %.1f "
                  "GFLOP/s in bf16, %.1f GB/s over %d MiB. Measured %s",
                  peaks->f32 * 1e-9, peaks->bf16 * 1e-9, peaks->bytes * 1e-9,
                  LSI_PEAKS_MIB, source);
}

json_t *lsi_machine_rates_json(const lsi_machine_rates *rates)
{
    const lsi_profile_peaks *const peaks = &rates->found.peaks;
    return json_pack(
        "{s:i, s:I, s:f, s:o, s:f, s:f, s:f}", "threads", rates->threads,
        "measured", (json_int_t)rates->found.measured, "others_cpus",
        rates->found.others, "kept_in",
        rates->path[0] != '\0' ? lsi_json_text(rates->path, strlen(rates->path))
                               : json_null(),
        "f32_gflops", peaks->f32 * 1e-9, "bf16_gflops", peaks->bf16 * 1e-9,
        "gb_per_s", peaks->bytes * 1e-9);
}

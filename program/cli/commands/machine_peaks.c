#include "cli/commands/machine_peaks.h"

#include <math.h>

#include "array/compute/array.h"
#include "array/compute/dense.h"
#include "array/compute/threads.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/commands/kept_peaks.h"

enum { EXTENT = 1024, FLOATS = 16 << 20, RUNS = 5 };

/* Of each rate, so that what else the machine does for a moment is no matter.
 */
static const double least_seconds = 0.2;

/* ---- measuring ----------------------------------------------------------- */

static bool goes_on(int run, double first)
{
    return run < RUNS || lsi_clock_seconds() - first < least_seconds;
}

/* The shortest of some runs behind the first, which plans. */
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
                            LS_MEMORY_WORKSPACE,
                            "measuring how fast this machine is"));
    lsi_threads_set(threads);
    ls_status status = measure_product(LS_F32, memory, &out->f32);
    if (status == LS_OK)
        status = measure_product(LS_BF16, memory, &out->bf16);
    out->bytes = measure_memory(memory);
    lsi_free(memory);
    return status;
}

/* ---- measured before, or now ----------------------------------------------
 */

/* ---- measured before, or now --------------------------------------------- */

/* What cannot be kept is measured the next time. */
static void keep(int threads, const lsi_profile_peaks *peaks)
{
    char path[LSI_PEAKS_PATH];
    lsi_kept_peaks kept = {
        .peaks = *peaks,
        .measured = (int64_t)lsi_wall_clock_seconds(),
    };
    lsi_peaks_place_here(&kept.place);
    if (lsi_kept_peaks_path(threads, path))
        (void)lsi_kept_peaks_write(path, &kept);
}

static bool take_kept(int threads, lsi_profile_peaks *out)
{
    char path[LSI_PEAKS_PATH], why[LSI_PEAKS_WHY];
    lsi_kept_peaks kept;
    lsi_peaks_place here;
    lsi_peaks_place_here(&here);
    if (!lsi_kept_peaks_path(threads, path) ||
        !lsi_kept_peaks_read(path, &kept) ||
        lsi_kept_peaks_expired(&kept, &here, (int64_t)lsi_wall_clock_seconds(),
                               why))
        return false;
    *out = kept.peaks;
    return true;
}

ls_status lsi_machine_peaks(int threads, bool again, lsi_profile_peaks *out)
{
    if (!again && take_kept(threads, out))
        return LS_OK;
    LS_TRY(measure(threads, out));
    keep(threads, out);
    return LS_OK;
}

ls_status lsi_machine_peaks_raise(int threads, lsi_profile_peaks *peaks)
{
    const lsi_profile_peaks old = *peaks;
    LS_TRY(measure(threads, peaks));
    peaks->f32 = fmax(peaks->f32, old.f32);
    peaks->bf16 = fmax(peaks->bf16, old.bf16);
    peaks->bytes = fmax(peaks->bytes, old.bytes);
    keep(threads, peaks);
    return LS_OK;
}

#include "cli/commands/machine_peaks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "array/compute/array.h"
#include "array/compute/dense.h"
#include "array/compute/threads.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "report/machine.h"
#include "report/result.h"

enum { EXTENT = 1024, FLOATS = 16 << 20, RUNS = 5, MOST_BYTES = 64 << 10 };

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

/* ---- keeping ------------------------------------------------------------- */

/* Makes the folder, too. False if there is no place for it. */
static bool path_of(int threads, char *out, size_t bytes)
{
    char folder[4096];
    const char *const cache = getenv("XDG_CACHE_HOME");
    const char *const home = getenv("HOME");
    if (cache != NULL && cache[0] == '/')
        snprintf(folder, sizeof(folder), "%s", cache);
    else if (home != NULL && home[0] == '/')
        snprintf(folder, sizeof(folder), "%s/.cache", home);
    else
        return false;
    (void)mkdir(folder, 0700);
    strncat(folder, "/lockstep", sizeof(folder) - strlen(folder) - 1);
    (void)mkdir(folder, 0700);
    return snprintf(out, bytes, "%s/peaks-%d-threads.json", folder, threads) <
           (int)bytes;
}

/* Of this machine, by its processor and level of instructions. */
static bool take_kept(json_t *json, json_t *machine, lsi_profile_peaks *out)
{
    json_t *of;
    return json_unpack(json, "{s:o, s:F, s:F, s:F}", "machine", &of, "f32",
                       &out->f32, "bf16", &out->bf16, "bytes",
                       &out->bytes) == 0 &&
           json_equal(json_object_get(of, "cpu"),
                      json_object_get(machine, "cpu")) &&
           json_equal(json_object_get(of, "isa"),
                      json_object_get(machine, "isa")) &&
           out->f32 > 0 && out->bf16 > 0 && out->bytes > 0;
}

static bool read_kept(const char *path, lsi_profile_peaks *out)
{
    char *text;
    size_t bytes;
    json_t *json = NULL;
    json_error_t error;
    if (lsi_read_regular(path, MOST_BYTES, &text, &bytes) != LS_OK)
        return false;
    json_t *const machine = lsi_machine_json();
    const bool good = lsi_json_loadb(text, bytes, 0, &json, &error) == LS_OK &&
                      machine != NULL && take_kept(json, machine, out);
    json_decref(machine);
    json_decref(json);
    lsi_free(text);
    return good;
}

static void keep(const char *path, const lsi_profile_peaks *peaks)
{
    json_t *const json =
        json_pack("{s:o, s:f, s:f, s:f}", "machine", lsi_machine_json(), "f32",
                  peaks->f32, "bf16", peaks->bf16, "bytes", peaks->bytes);
    (void)lsi_result_write_json(path, json, LSI_JSON_NARROW, path);
}

ls_status lsi_machine_peaks(int threads, bool again, lsi_profile_peaks *out)
{
    char path[4200];
    const bool place = path_of(threads, path, sizeof(path));
    if (place && !again && read_kept(path, out))
        return LS_OK;
    LS_TRY(measure(threads, out));
    if (place)
        keep(path, out);
    return LS_OK;
}

ls_status lsi_machine_peaks_raise(int threads, lsi_profile_peaks *peaks)
{
    const lsi_profile_peaks old = *peaks;
    char path[4200];
    LS_TRY(measure(threads, peaks));
    peaks->f32 = fmax(peaks->f32, old.f32);
    peaks->bf16 = fmax(peaks->bf16, old.bf16);
    peaks->bytes = fmax(peaks->bytes, old.bytes);
    if (path_of(threads, path, sizeof(path)))
        keep(path, peaks);
    return LS_OK;
}

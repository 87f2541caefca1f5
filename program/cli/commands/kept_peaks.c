#include "cli/commands/kept_peaks.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/busy.h"
#include "base/cache_path.h"
#include "base/cpu.h"
#include "base/cpuset.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "report/result.h"

enum { MOST_BYTES = 64 << 10, DAY = 24 * 60 * 60 };

/* ---- the machine --------------------------------------------------------- */

void lsi_peaks_place_here(lsi_peaks_place *out)
{
    struct utsname name;
    lsi_cpuset cpus = {{0}};
    lsi_isa isa;
    if (lsi_isa_from_env(&isa) != LS_OK)
        isa = lsi_cpu_isa();
    (void)lsi_cpuset_own(&cpus);
    snprintf(out->cpu, sizeof(out->cpu), "%s", lsi_cpu_model());
    snprintf(out->isa, sizeof(out->isa), "%s", lsi_isa_name(isa));
    snprintf(out->kernel, sizeof(out->kernel), "%s",
             uname(&name) == 0 ? name.release : "unknown");
    lsi_cpuset_text(&cpus, out->cpus, sizeof(out->cpus));
}

/* ---- how long they hold -------------------------------------------------- */

void lsi_peaks_date(int64_t time, char out[LSI_PEAKS_DATE])
{
    const time_t seconds = (time_t)time;
    struct tm local;
    if (localtime_r(&seconds, &local) == NULL ||
        strftime(out, LSI_PEAKS_DATE, "%Y-%m-%d", &local) == 0)
        snprintf(out, LSI_PEAKS_DATE, "unknown date");
}

bool lsi_kept_peaks_are_busy(const lsi_kept_peaks *kept)
{
    return lsi_busy_rule(kept->others, kept->available);
}

bool lsi_kept_peaks_expired(const lsi_kept_peaks *kept,
                            const lsi_peaks_place *here, int64_t now,
                            bool force, char why[LSI_PEAKS_WHY])
{
    const lsi_peaks_place *const there = &kept->place;
    const struct {
        const char *what, *then, *now;
    } all[] = {{"the processor", there->cpu, here->cpu},
               {"the kernel", there->kernel, here->kernel},
               {"the CPU set", there->cpus, here->cpus},
               {"the instruction set", there->isa, here->isa}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(all[i].then, all[i].now) == 0)
            continue;
        snprintf(why, LSI_PEAKS_WHY, "were measured with %s '%s' (now: '%s')",
                 all[i].what, all[i].then, all[i].now);
        return true;
    }
    if (kept->measured > now)
        snprintf(why, LSI_PEAKS_WHY, "have a date in the future");
    else if (now - kept->measured > (int64_t)LSI_PEAKS_DAYS * DAY)
        snprintf(why, LSI_PEAKS_WHY, "are more than %d days old",
                 LSI_PEAKS_DAYS);
    else if (!force && lsi_kept_peaks_are_busy(kept))
        snprintf(why, LSI_PEAKS_WHY,
                 "were measured while other processes used %.1f of the %d CPUs",
                 kept->others, kept->available);
    else
        return false;
    return true;
}

/* ---- as JSON ------------------------------------------------------------- */

json_t *lsi_kept_peaks_json(const lsi_kept_peaks *kept)
{
    const lsi_peaks_place *const p = &kept->place;
    return json_pack("{s:I, s:f, s:i, s:{s:s, s:s, s:s, s:s}, s:f, s:f, s:f}",
                     "measured", (json_int_t)kept->measured, "others_cpus",
                     kept->others, "available_cpus", kept->available, "machine",
                     "cpu", p->cpu, "isa", p->isa, "kernel", p->kernel,
                     "allowed_cpus", p->cpus, "f32", kept->peaks.f32, "bf16",
                     kept->peaks.bf16, "bytes", kept->peaks.bytes);
}

static bool copy(char *to, size_t bytes, const char *from)
{
    return (size_t)snprintf(to, bytes, "%s", from) < bytes;
}

bool lsi_kept_peaks_of_json(json_t *json, lsi_kept_peaks *out)
{
    const char *cpu, *isa, *kernel, *cpus;
    json_int_t measured;
    lsi_profile_peaks *const r = &out->peaks;
    if (json_unpack(json,
                    "{s:I, s:F, s:i, s:{s:s, s:s, s:s, s:s}, s:F, s:F, s:F}",
                    "measured", &measured, "others_cpus", &out->others,
                    "available_cpus", &out->available, "machine", "cpu", &cpu,
                    "isa", &isa, "kernel", &kernel, "allowed_cpus", &cpus,
                    "f32", &r->f32, "bf16", &r->bf16, "bytes", &r->bytes) != 0)
        return false;
    out->measured = measured;
    return r->f32 > 0 && r->bf16 > 0 && r->bytes > 0 &&
           copy(out->place.cpu, sizeof(out->place.cpu), cpu) &&
           copy(out->place.isa, sizeof(out->place.isa), isa) &&
           copy(out->place.kernel, sizeof(out->place.kernel), kernel) &&
           copy(out->place.cpus, sizeof(out->place.cpus), cpus);
}

/* ---- the file ------------------------------------------------------------ */

bool lsi_kept_peaks_path(int threads, char out[LSI_PEAKS_PATH])
{
    char name[64];
    snprintf(name, sizeof(name), "peaks-%d-threads.json", threads);
    return lsi_cache_path(name, out, LSI_PEAKS_PATH);
}

bool lsi_kept_peaks_read(const char *path, lsi_kept_peaks *out)
{
    char *text;
    size_t bytes;
    json_t *json = NULL;
    json_error_t error;
    if (lsi_read_regular(path, MOST_BYTES, &text, &bytes) != LS_OK)
        return false;
    const bool good = lsi_json_loadb(text, bytes, 0, &json, &error) == LS_OK &&
                      lsi_kept_peaks_of_json(json, out);
    json_decref(json);
    lsi_free(text);
    return good;
}

ls_status lsi_kept_peaks_write(const char *path, const lsi_kept_peaks *kept)
{
    LS_TRY(lsi_make_parents(path));
    return lsi_result_write_json(path, lsi_kept_peaks_json(kept),
                                 LSI_JSON_NARROW, "rates of this machine");
}

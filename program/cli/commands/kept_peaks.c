#include "cli/commands/kept_peaks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "report/machine.h"
#include "report/result.h"

enum { MOST_BYTES = 64 << 10 };

bool lsi_kept_peaks_path(int threads, char *out, size_t bytes)
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

bool lsi_kept_peaks_read(const char *path, lsi_profile_peaks *out)
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

void lsi_kept_peaks_write(const char *path, const lsi_profile_peaks *peaks)
{
    json_t *const json =
        json_pack("{s:o, s:f, s:f, s:f}", "machine", lsi_machine_json(), "f32",
                  peaks->f32, "bf16", peaks->bf16, "bytes", peaks->bytes);
    (void)lsi_result_write_json(path, json, LSI_JSON_NARROW, path);
}

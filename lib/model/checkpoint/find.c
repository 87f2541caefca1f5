/* Finding a checkpoint; see find.h. */
#include "model/checkpoint/find.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "model/checkpoint/cache.h"
#include "model/checkpoint/manifest.h"

ls_status lsi_checkpoint_verify(const char *step_folder)
{
    json_t *manifest;
    LS_TRY(lsi_manifest_read(step_folder, &manifest));
    const ls_status status = lsi_manifest_verify(manifest, step_folder);
    json_decref(manifest);
    if (status == LS_OK)
        lsi_checkpoint_cache_add_intact(step_folder);
    return status;
}

ls_status lsi_checkpoint_verify_once(const char *step_folder)
{
    return lsi_checkpoint_cache_has_intact(step_folder)
               ? LS_OK
               : lsi_checkpoint_verify(step_folder);
}

static bool has(const char *folder, const char *name)
{
    return access(lsi_path_in(folder, name).text, F_OK) == 0;
}

/* The error describes the newest checkpoint whose save has finished. */
static ls_status newest_of(const char *folder, const int64_t *steps, size_t n,
                           int64_t most, int64_t *step)
{
    char reason[1024] = "";
    for (size_t i = 0; i < n; i++) {
        if (steps[i] > most)
            continue;
        const lsi_path path = lsi_step_folder(folder, steps[i]);
        const ls_status status = lsi_checkpoint_verify(path.text);
        if (status == LS_OK) {
            lsi_checkpoint_cache_set_passed(folder, steps[i], false);
            *step = steps[i];
            return LS_OK;
        }
        if (status == LS_ERR_MEMORY || status == LS_ERR_BUDGET)
            return status; /* no verdict on the checkpoint */
        lsi_checkpoint_cache_set_passed(folder, steps[i], true);
        lsi_log(LS_LOG_WARN, "ignoring a checkpoint: %s", ls_last_error());
        if (reason[0] == '\0' && lsi_step_may_have_ended(path.text))
            snprintf(reason, sizeof reason, "%s", ls_last_error());
    }
    if (reason[0] == '\0')
        return lsi_fail(LS_ERR_NOT_FOUND, "no checkpoint found in '%s'%s",
                        folder, n > 0 ? ": no save has finished" : "");
    return lsi_fail(LS_ERR_FORMAT,
                    "no intact checkpoint found in '%s'. The newest saved "
                    "checkpoint cannot be used: %s",
                    folder, reason);
}

ls_status lsi_checkpoint_newest(const char *folder, int64_t most, int64_t *step)
{
    int64_t *steps;
    size_t n;
    LS_TRY(lsi_steps_list(folder, &steps, &n));
    const ls_status status = newest_of(folder, steps, n, most, step);
    lsi_free(steps);
    return status;
}

ls_status lsi_checkpoint_weights(const char *path, lsi_path *out)
{
    struct stat info;
    int64_t step;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        *out = lsi_path_in(NULL, path);
        return LS_OK; /* its reader reports the fault */
    }
    *out = lsi_path_in(path, LSI_MODEL_FILE);
    if (has(path, LSI_MANIFEST_FILE) || lsi_step_of(path) >= 0)
        return lsi_checkpoint_verify(path);
    if (has(path, LSI_MODEL_FILE))
        return LS_OK;
    if (has(path, LSI_MODEL_FILE ".index.json")) {
        *out = lsi_path_in(path, LSI_MODEL_FILE ".index.json");
        return LS_OK;
    }
    const ls_status status = lsi_checkpoint_newest(path, INT64_MAX, &step);
    if (status == LS_ERR_NOT_FOUND)
        return lsi_fail(
            status,
            "%s. The folder contains no %s either; a run writes this file when "
            "it ends, but not if it fails or diverges",
            ls_last_error(), LSI_MODEL_FILE);
    LS_TRY(status);
    *out = lsi_path_in(lsi_step_folder(path, step).text, LSI_MODEL_FILE);
    return LS_OK;
}

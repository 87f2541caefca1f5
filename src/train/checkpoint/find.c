/* Finding a checkpoint; see find.h. */
#include "train/checkpoint/find.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "train/checkpoint/manifest.h"

static ls_status examine(const char *step_folder)
{
    json_t *manifest;
    LS_TRY(lsi_manifest_read(step_folder, &manifest));
    const ls_status status = lsi_manifest_verify(manifest, step_folder);
    json_decref(manifest);
    return status;
}

/* Fails with what is wrong with the newest one. */
static ls_status newest_of(const char *folder, const int64_t *steps, size_t n,
                           int64_t *step)
{
    char reason[1024] = "";
    for (size_t i = 0; i < n; i++) {
        if (examine(lsi_step_folder(folder, steps[i]).text) == LS_OK) {
            *step = steps[i];
            return LS_OK;
        }
        lsi_log(LSI_LOG_WARN, "ignored: %s", ls_last_error());
        if (i == 0)
            snprintf(reason, sizeof reason, "; %s", ls_last_error());
    }
    return lsi_fail(LS_ERR_IO, "there is no whole checkpoint in '%s'%s", folder,
                    reason);
}

ls_status lsi_checkpoint_newest(const char *folder, int64_t *step)
{
    int64_t *steps;
    size_t n;
    LS_TRY(lsi_steps_list(folder, &steps, &n));
    const ls_status status = newest_of(folder, steps, n, step);
    lsi_free(steps);
    return status;
}

static bool has(const char *folder, const char *name)
{
    return access(lsi_path_in(folder, name).text, F_OK) == 0;
}

ls_status lsi_checkpoint_weights(const char *path, lsi_path *out)
{
    struct stat info;
    int64_t step;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        *out = lsi_path_in(NULL, path);
        return LS_OK; /* whoever reads it will say what is wrong */
    }
    *out = lsi_path_in(path, LSI_MODEL_FILE);
    if (has(path, LSI_MANIFEST_FILE) || lsi_is_step_folder(path))
        return examine(path);
    if (has(path, LSI_MODEL_FILE))
        return LS_OK;
    LS_TRY(lsi_checkpoint_newest(path, &step));
    *out = lsi_path_in(lsi_step_folder(path, step).text, LSI_MODEL_FILE);
    return LS_OK;
}

#include "train/keep.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/restart.h"
#include "lockstep/version.h"
#include "report/result.h"
#include "report/size_text.h"

static const char runs[] = "runs";

/* Key of the launcher's run id in the configuration file. */
static const char run_key[] = "launcher_run";

enum { METRICS_BYTES = 192 << 10, NAMES_BYTES = 64 << 10 };

/* Upper bound for the model file, with names and statistics of layers. */
static uint64_t model_bytes(uint64_t bytes)
{
    return bytes + bytes / 64 + NAMES_BYTES;
}

/* ---- refusing ------------------------------------------------------------ */

/* Appends to the last error how much is needed, and what to do. */
static ls_status refuse(ls_status status, uint64_t needed, bool file)
{
    char size[LSI_SIZE_TEXT];
    lsi_size_text(size, needed);
    return lsi_fail(status, "%s. The result needs %s; %s", ls_last_error(),
                    size,
                    file ? "give another file with --save"
                         : "give another folder with --output-dir, or use "
                           "--no-save to save nothing");
}

static ls_status cannot_make(const char *folder, uint64_t needed)
{
    return refuse(
        lsi_fail_errno(LS_ERR_IO, "cannot create the folder '%s'", folder),
        needed, false);
}

/* ---- a run that failed -------------------------------------------------- */

static bool holds(const char *folder, const char *name)
{
    return access(lsi_path_in(folder, name).text, F_OK) == 0;
}

/*
 * Whether a run failed or was killed there before it had a model: its lock file
 * still exists.
 */
static bool has_failed(const char *folder)
{
    return holds(folder, LSI_KEEP_LOCK) && !holds(folder, LSI_MODEL_FILE);
}

/* Bytes of a failed run's metrics, which another run there will not have. */
static uint64_t failed_bytes(const lsi_keep *k)
{
    struct stat info;
    if (k->folder == NULL || k->file != NULL || !has_failed(k->folder) ||
        stat(lsi_path_in(k->folder, LSI_KEEP_METRICS).text, &info) != 0)
        return 0;
    return (uint64_t)info.st_blocks * 512;
}

/* ---- room ---------------------------------------------------------------- */

/* Replaces a path by its parent folder; false for "." and "/". */
static bool go_up(char *path)
{
    char *const slash = strrchr(path, '/');
    if (strcmp(path, ".") == 0 || strcmp(path, "/") == 0)
        return false;
    if (slash == NULL)
        memcpy(path, ".", sizeof("."));
    else
        slash[slash == path] = '\0';
    return true;
}

/* Free bytes of the file system; UINT64_MAX: not known. */
static uint64_t free_bytes(const char *path)
{
    struct statvfs info;
    lsi_path at = lsi_path_in(NULL, path);
    while (statvfs(at.text, &info) != 0)
        if (errno != ENOENT || !go_up(at.text))
            return UINT64_MAX;
    return info.f_blocks == 0 ? UINT64_MAX
                              : (uint64_t)info.f_bavail * info.f_frsize;
}

static ls_status check_room(const lsi_keep *k, uint64_t needed)
{
    char room[LSI_SIZE_TEXT];
    const char *const path = k->file != NULL     ? k->file
                             : k->folder != NULL ? k->folder
                                                 : runs;
    const uint64_t available = free_bytes(path), more = failed_bytes(k);
    if (available >= needed || available + more >= needed)
        return LS_OK;
    lsi_size_text(room, available);
    return refuse(lsi_fail(LS_ERR_IO, "cannot write to '%s': only %s are free",
                           path, room),
                  needed, k->file != NULL);
}

/* ---- what a folder holds ------------------------------------------------- */

/* Files next to the model, for transformers. */
static const char *const others[] = {"config.json", "tokenizer.json",
                                     "tokenizer_config.json"};

/* A file of a result, or of a model of transformers; NULL: none. */
static const char *first_file(const char *folder)
{
    static const char index[] = LSI_MODEL_FILE ".index.json";
    const char *const names[] = {LSI_MODEL_FILE,  index,
                                 "config.json",   "tokenizer.json",
                                 LSI_KEEP_CONFIG, LSI_KEEP_METRICS};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (holds(folder, names[i]))
            return names[i];
    return NULL;
}

/* Whether the configuration names the run of this process's launcher. */
static bool is_of_this_run(const char *folder)
{
    const uint64_t limit = 1 << 20;
    const lsi_path path = lsi_path_in(folder, LSI_KEEP_CONFIG);
    char *text;
    size_t bytes;
    json_t *config = NULL;
    json_error_t error;
    if (lsi_read_regular(path.text, limit, &text, &bytes) != LS_OK)
        return false;
    (void)lsi_json_loadb(text, bytes, 0, &config, &error);
    const char *const run = json_string_value(json_object_get(config, run_key));
    const bool same = run != NULL && strcmp(run, lsi_restart_run()) == 0;
    json_decref(config);
    lsi_free(text);
    return same;
}

/* Whether an attempt before a restart has left the folder without ending. */
static bool is_unfinished(const char *folder)
{
    return lsi_restarts() > 0 && !holds(folder, LSI_MODEL_FILE) &&
           is_of_this_run(folder);
}

/* ---- a folder in runs/ --------------------------------------------------- */

/* Date and number in a folder name JOB-DATE-N; number 0: another name. */
typedef struct order {
    char date[sizeof("2026-11-26")];
    long number;
} order;

static order order_of(const lsi_keep *k, const char *name)
{
    order out = {"", 0};
    char *end;
    const size_t job = strlen(k->job), date = sizeof(out.date) - 1;
    if (strncmp(name, k->job, job) != 0 || strlen(name) < job + date + 3 ||
        name[job] != '-' || name[job + date + 1] != '-')
        return out;
    memcpy(out.date, name + job + 1, date);
    const long number = strtol(name + job + date + 2, &end, 10);
    out.number = *end == '\0' ? number : 0;
    return out;
}

static bool is_newer(order one, order other)
{
    const int by_date = strcmp(one.date, other.date);
    return one.number > 0 &&
           (by_date > 0 || (by_date == 0 && one.number > other.number));
}

/* The newest folder that an attempt before a restart has left. */
static bool find_unfinished(const lsi_keep *k, lsi_path *out)
{
    order newest = {"", 0};
    DIR *const all = lsi_restarts() > 0 ? opendir(runs) : NULL;
    if (all == NULL)
        return false;
    for (struct dirent *e; (e = readdir(all)) != NULL;) {
        const order own = order_of(k, e->d_name);
        const lsi_path path = lsi_path_in(runs, e->d_name);
        if (is_newer(own, newest) && is_unfinished(path.text)) {
            newest = own;
            *out = path;
        }
    }
    closedir(all);
    return newest.number > 0;
}

/* Whether runs/ exists now; a run that is refused may just have removed it. */
static bool make_parent(lsi_keep *k)
{
    const bool made = mkdir(runs, 0777) == 0;
    k->made_parent |= made;
    return made || (errno == EEXIST && access(runs, F_OK) == 0);
}

/*
 * mkdir succeeds for one run only: two runs that start at once get two folders.
 */
static ls_status make_next(lsi_keep *k, uint64_t needed)
{
    char date[16], name[64];
    const time_t now = time(NULL);
    struct tm day;
    (void)strftime(date, sizeof(date), "%Y-%m-%d", localtime_r(&now, &day));
    for (int n = 1; !k->made_place;) {
        snprintf(name, sizeof(name), "%s-%s-%d", k->job, date, n);
        k->place = lsi_path_in(runs, name);
        k->made_place = mkdir(k->place.text, 0777) == 0;
        if (!k->made_place && errno == EEXIST)
            n++;
        else if (!k->made_place && (errno != ENOENT || !make_parent(k)))
            return cannot_make(k->place.text, needed);
    }
    return LS_OK;
}

/* ---- a folder that was asked for ----------------------------------------- */

static ls_status lock_folder(lsi_keep *k, uint64_t needed)
{
    const ls_status status =
        lsi_folder_lock_acquire(&k->lock, k->place.text, LSI_KEEP_LOCK);
    return status == LS_ERR_IO ? refuse(status, needed, false) : status;
}

static ls_status check_content(const lsi_keep *k, bool continues, bool failed)
{
    const char *const there = first_file(k->folder);
    const bool goes_on =
        continues || is_unfinished(k->folder) ||
        ((k->resumes || failed) && !holds(k->folder, LSI_MODEL_FILE));
    if (there == NULL || goes_on)
        return LS_OK;
    return lsi_fail(LS_ERR_STATE,
                    "'%s' already contains '%s' of another run; give a new "
                    "folder with --output-dir",
                    k->folder, there);
}

/* The folders above that this process has made, if nothing is in them. */
static void remove_above(const lsi_keep *k)
{
    lsi_path at = k->place;
    while (k->above.text[0] != '\0' && go_up(at.text) &&
           strcmp(at.text, k->above.text) != 0)
        (void)rmdir(at.text);
}

static ls_status make_folder(lsi_keep *k, uint64_t needed)
{
    struct stat info;
    lsi_path above = lsi_path_in(NULL, k->folder);
    k->made_place = stat(above.text, &info) != 0;
    while (stat(above.text, &info) != 0 && go_up(above.text))
        ;
    if (k->made_place)
        k->above = above;
    if (!lsi_make_folders(k->folder)) {
        const ls_status status = cannot_make(k->folder, needed);
        k->place = lsi_path_in(NULL, k->folder);
        remove_above(k);
        k->place = (lsi_path){0};
        k->made_place = false;
        return status;
    }
    k->place = lsi_path_in(NULL, k->folder);
    return LS_OK;
}

static ls_status claim_folder(lsi_keep *k, uint64_t needed, bool continues)
{
    const bool failed = has_failed(k->folder);
    LS_TRY(check_content(k, continues, failed));
    LS_TRY(make_folder(k, needed));
    LS_TRY(lock_folder(k, needed));
    LS_TRY(check_content(k, continues, failed)); /* it may have changed */
    if (failed && !continues)
        (void)unlink(lsi_path_in(k->folder, LSI_KEEP_METRICS).text);
    return LS_OK;
}

static ls_status claim_new_folder(lsi_keep *k, uint64_t needed)
{
    if (!find_unfinished(k, &k->place))
        LS_TRY(make_next(k, needed));
    return lock_folder(k, needed);
}

/* ---- the interface ------------------------------------------------------- */

static ls_status choose(lsi_keep *k, uint64_t needed, bool continues)
{
    if (k->folder_wanted)
        LS_TRY(k->folder != NULL ? claim_folder(k, needed, continues)
                                 : claim_new_folder(k, needed));
    k->model = k->file != NULL ? lsi_path_in(NULL, k->file)
                               : lsi_path_in(k->place.text, LSI_MODEL_FILE);
    const ls_status status = lsi_result_check_file(k->model.text);
    return status == LS_OK ? LS_OK : refuse(status, needed, k->file != NULL);
}

static void reserve(lsi_keep *k, uint64_t bytes)
{
    lsi_path folder = k->model;
    if (go_up(folder.text))
        lsi_reserve_space(&k->room, folder.text, bytes);
}

ls_status lsi_keep_open(lsi_keep *keep, uint64_t bytes, bool continues)
{
    const uint64_t more = keep->file == NULL ? keep->others : 0;
    const uint64_t model = model_bytes(bytes + more);
    keep->needed = model + METRICS_BYTES; /* and the first metrics */
    LS_TRY(check_room(keep, keep->needed));
    const ls_status status = choose(keep, keep->needed, continues);
    if (status == LS_OK)
        reserve(keep, model);
    else
        lsi_keep_close(keep);
    return status;
}

/* Another process may have locked a folder that this one has made. */
void lsi_keep_close(lsi_keep *keep)
{
    const char *const place = keep->place.text;
    const bool begun = holds(place, LSI_KEEP_CONFIG);
    const bool unused = keep->made_place && !begun;
    lsi_reserve_drop(&keep->room);
    if (unused && keep->lock.held)
        (void)unlink(lsi_path_in(place, LSI_KEEP_METRICS).text);
    if (!begun || keep->over)
        lsi_folder_lock_remove(&keep->lock, place, LSI_KEEP_LOCK);
    lsi_folder_lock_drop(&keep->lock);
    if (unused && rmdir(place) == 0)
        remove_above(keep);
    if (keep->made_parent)
        (void)rmdir(runs);
}

/* Real numbers that 15 digits do not identify are written with all digits. */
static lsi_json_form form_of(json_t *flags)
{
    const char *name;
    json_t *value;
    json_object_foreach(flags, name, value)
    {
        char text[32];
        const double real = json_real_value(value);
        snprintf(text, sizeof(text), "%.15g", real);
        if (strtod(text, NULL) != real)
            return LSI_JSON_NARROW;
    }
    return LSI_JSON_WIDE;
}

ls_status lsi_keep_write_config(const lsi_keep *keep, const char *command,
                                json_t *flags, json_t *chosen)
{
    const char *const run = lsi_restart_run();
    const lsi_json_form form = form_of(flags);
    json_t *const config = json_pack("{s:s, s:s, s:s*, s:o, s:o*}", "lockstep",
                                     ls_version_string(), "command", command,
                                     run_key, run[0] != '\0' ? run : NULL,
                                     "flags", flags, "chosen", chosen);
    return lsi_result_write_json(
        lsi_path_in(keep->place.text, LSI_KEEP_CONFIG).text, config, form,
        "the configuration of the run");
}

void lsi_keep_begin(lsi_keep *keep)
{
    lsi_reserve_drop(&keep->room);
}

/* Removes files of a language model whose weights could not be written. */
static void remove_others(const lsi_keep *k)
{
    const char *const place = k->place.text;
    if (k->file != NULL || holds(place, LSI_MODEL_FILE))
        return;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        (void)unlink(lsi_path_in(place, others[i]).text);
}

static ls_status fail_to_write(const lsi_keep *k, ls_status status)
{
    char needed[LSI_SIZE_TEXT], room[LSI_SIZE_TEXT];
    remove_others(k);
    const uint64_t available = free_bytes(k->model.text);
    if (status != LS_ERR_IO || available >= k->needed)
        return status;
    lsi_size_text(needed, k->needed);
    lsi_size_text(room, available);
    return lsi_fail(status, "%s. The result needs %s, but only %s are free",
                    ls_last_error(), needed, room);
}

ls_status lsi_keep_end(lsi_keep *keep, ls_status status)
{
    struct stat info;
    if (status != LS_OK)
        return fail_to_write(keep, status);
    if (stat(keep->model.text, &info) == 0)
        keep->bytes = (uint64_t)info.st_size;
    return LS_OK;
}

void lsi_keep_describe(const lsi_keep *keep, char out[LSI_KEEP_TEXT])
{
    char size[LSI_SIZE_TEXT];
    lsi_size_text(size, keep->bytes);
    snprintf(out, LSI_KEEP_TEXT, "saved '%s' (%s)%s%s", keep->model.text, size,
             keep->note != NULL ? ", " : "",
             keep->note != NULL ? keep->note : "");
}

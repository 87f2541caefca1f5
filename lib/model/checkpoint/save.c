/*
 * Saving a checkpoint: rank 0 locks and makes the folder, all ranks write their
 * files, rank 0 writes the manifest. After each of the three steps the ranks
 * agree on the outcome. Then rank 0 removes old checkpoints.
 */
#include "model/checkpoint/save.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/structs.h"
#include "comm/api/outcome.h"
#include "model/autograd/params.h"
#include "model/checkpoint/cache.h"
#include "model/checkpoint/find.h"
#include "model/checkpoint/manifest.h"
#include "model/checkpoint/params_file.h"
#include "model/checkpoint/part.h"
#include "model/optim/param_group.h"
#include "model/tensor/safetensors.h"
#include "observe/spans.h"

typedef struct saving {
    ls_group *group;
    lsi_folder_lock *lock;
    const char *folder;
    int64_t step;
    const ls_checkpoint_parts *parts;
    lsi_path step_folder;
    bool begun;         /* rank 0 has made the folder, which is incomplete */
    lsi_file_sum model; /* checksum of the model, on rank 0 */
    lsi_file_sum own;   /* checksum of this rank's file */
    lsi_file_sum *all;  /* checksums of all ranks' files */
} saving;

/* ---- the folder ---------------------------------------------------------- */

/*
 * Keeps a checkpoint that could not be read when the run started and went on
 * from an older one. The fault may have been temporary.
 */
static ls_status set_aside(const saving *s)
{
    lsi_path to;
    LS_TRY(lsi_step_set_aside(s->folder, s->step, &to));
    lsi_checkpoint_cache_set_passed(s->folder, s->step, false);
    lsi_log(LS_LOG_WARN,
            "the checkpoint '%s' could not be read when this run started. It "
            "was renamed to '%s', and step %" PRId64 " is saved again",
            s->step_folder.text, to.text, s->step);
    return LS_OK;
}

/* Makes room by removing only a checkpoint that is certainly not intact. */
static ls_status make_room(const saving *s)
{
    ls_status status = lsi_checkpoint_verify(s->step_folder.text);
    if (status == LS_ERR_FORMAT)
        status = lsi_step_clear(s->folder, s->step);
    else if (status == LS_OK)
        status = lsi_fail(LS_ERR_STATE,
                          "'%s' already contains a checkpoint; remove it, or "
                          "choose another folder",
                          s->step_folder.text);
    if (status == LS_OK || status == LS_ERR_MEMORY || status == LS_ERR_BUDGET ||
        !lsi_checkpoint_cache_was_passed(s->folder, s->step))
        return status;
    return set_aside(s);
}

/* Makes the step's folder, after removing the remains of an unfinished save. */
static ls_status make_place(saving *s)
{
    if (ls_group_rank(s->group) != 0)
        return LS_OK;
    LS_TRY(lsi_folder_make(s->folder));
    LS_TRY(lsi_folder_lock_acquire(s->lock, s->folder, LSI_LOCK_FILE));
    LS_TRY(make_room(s));
    s->begun = true;
    return lsi_step_make(s->folder, s->step);
}

/*
 * After a failure, removes the written files, which use space that may be
 * needed. Returns the status, with its message.
 */
static ls_status clear_place(const saving *s, ls_status status)
{
    lsi_error error = {.status = LS_OK};
    (void)lsi_error_keep(&error, status);
    if (lsi_step_remove(s->folder, s->step) != LS_OK)
        lsi_log(LS_LOG_WARN, "%s", ls_last_error());
    return lsi_error_again(&error);
}

/* ---- a rank's file ------------------------------------------------------- */

typedef struct tensors {
    const ls_params *params;
    ls_named_tensor *items; /* names and tensors are owned */
    size_t n, capacity;
} tensors;

static void release_tensors(tensors *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free((char *)(uintptr_t)t->items[i].name);
        ls_tensor_free(&t->items[i].tensor);
    }
    lsi_free(t->items);
}

static ls_status reserve(tensors *t)
{
    if (t->n < t->capacity)
        return LS_OK;
    const size_t capacity = 2 * t->capacity + 16;
    LS_TRY(lsi_alloc_larger(&t->items, t->n * sizeof(ls_named_tensor),
                            capacity * sizeof(ls_named_tensor), LS_MEMORY_OTHER,
                            "the tensors of a checkpoint"));
    t->capacity = capacity;
    return LS_OK;
}

/* Adds a tensor of that name. Takes over the reference, even on failure. */
__attribute__((format(printf, 3, 4))) static ls_status
add_tensor(tensors *t, ls_tensor *tensor, const char *format, ...)
{
    char *name = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&name, format, args) < 0)
        name = NULL;
    va_end(args);
    const ls_status status =
        name != NULL
            ? reserve(t)
            : lsi_fail(LS_ERR_MEMORY, "not enough memory for a checkpoint");
    if (status != LS_OK) {
        free(name);
        ls_tensor_free(&tensor);
        return status;
    }
    t->items[t->n++] = (ls_named_tensor){name, tensor};
    return LS_OK;
}

static ls_status add_piece(void *context, const lsi_state_piece *piece)
{
    tensors *t = context;
    ls_tensor *tensor;
    const int64_t n = (int64_t)piece->n;
    LS_TRY(ls_tensor_wrap(&tensor, piece->data, LS_F32, 1, &n, NULL));
    return add_tensor(t, tensor, "%s/%s@%zu", piece->state,
                      ls_params_name(t->params, piece->param), piece->begin);
}

/* Every rank has separate averages of buffers, as it has separate buffers. */
static ls_status add_average(tensors *t, float *average, size_t index)
{
    const ls_tensor *const buffer = t->params->buffers.items[index]->tensor;
    ls_tensor *tensor;
    LS_TRY(ls_tensor_wrap(&tensor, average, LS_F32, ls_tensor_ndim(buffer),
                          ls_tensor_shape(buffer), NULL));
    return add_tensor(t, tensor, LSI_EMA_STATE "_buffer/%s",
                      ls_params_buffer_name(t->params, index));
}

static ls_status add_averages(tensors *t, const ls_optimizer *optimizer)
{
    for (size_t i = 0; i < ls_params_buffer_count(t->params); i++) {
        float *const average = lsi_ema_buffer(optimizer, i);
        if (average != NULL)
            LS_TRY(add_average(t, average, i));
    }
    return LS_OK;
}

static ls_status add_buffers(tensors *t)
{
    for (size_t i = 0; i < ls_params_buffer_count(t->params); i++)
        LS_TRY(add_tensor(t,
                          ls_tensor_retain(t->params->buffers.items[i]->tensor),
                          "buffer/%s", ls_params_buffer_name(t->params, i)));
    return LS_OK;
}

static ls_status add_all(const saving *s, tensors *t, lsi_range share)
{
    LS_TRY(add_buffers(t));
    if (s->parts->optimizer == NULL)
        return LS_OK;
    LS_TRY(lsi_ema_check_place(s->parts->optimizer, "ls_checkpoint_save"));
    LS_TRY(add_averages(t, s->parts->optimizer));
    return lsi_optimizer_pieces(s->parts->optimizer, share, add_piece, t);
}

static ls_status write_own_file(saving *s, lsi_range share)
{
    const lsi_path name =
        lsi_rank_file(ls_group_rank(s->group), ls_group_size(s->group));
    const lsi_path path = lsi_path_in(s->step_folder.text, name.text);
    tensors t = {.params = s->parts->params};
    ls_status status = add_all(s, &t, share);
    if (status == LS_OK)
        status = lsi_safetensors_save(path.text, t.items, t.n, NULL, &s->own);
    release_tensors(&t);
    return status;
}

static size_t count_texts(const char *const *texts)
{
    size_t n = 0;
    while (texts != NULL && texts[n] != NULL)
        n++;
    return n;
}

/* The values and the metadata; *out is the caller's (lsi_free). */
static ls_status join_metadata(const ls_checkpoint_parts *parts,
                               const char ***out)
{
    const size_t n = count_texts(parts->values);
    const size_t more = count_texts(parts->metadata);
    const char **all;
    LS_TRY(lsi_alloc_zeroed(&all, (n + more + 1) * sizeof(const char *),
                            LS_MEMORY_OTHER, "metadata"));
    for (size_t i = 0; i < n; i++)
        all[i] = parts->values[i];
    for (size_t i = 0; i < more; i++)
        all[n + i] = parts->metadata[i];
    *out = all;
    return LS_OK;
}

static ls_status write_model(saving *s)
{
    const lsi_path path = lsi_path_in(s->step_folder.text, LSI_MODEL_FILE);
    const char **metadata;
    LS_TRY(join_metadata(s->parts, &metadata));
    const ls_status status =
        lsi_params_save(s->parts->params, path.text, metadata, &s->model);
    lsi_free(metadata);
    return status;
}

static ls_status write_files(saving *s, lsi_range share)
{
    LS_TRY(lsi_alloc(&s->all,
                     (size_t)ls_group_size(s->group) * sizeof(lsi_file_sum),
                     LS_MEMORY_OTHER, "checksums"));
    LS_TRY(lsi_step_check(s->step_folder.text, ls_group_rank(s->group)));
    LS_TRY(write_own_file(s, share));
    return ls_group_rank(s->group) == 0 ? write_model(s) : LS_OK;
}

/* ---- removing old checkpoints -------------------------------------------- */

typedef struct pruning {
    const char *folder;
    int64_t saved;
    size_t keep;
    bool alone;
    const int64_t *steps; /* newest first */
    size_t n;
} pruning;

static lsi_path path_of(const pruning *p, size_t i)
{
    return lsi_step_folder(p->folder, p->steps[i]);
}

static lsi_step_state state_of(const pruning *p, size_t i)
{
    return lsi_step_find_state(p->folder, p->steps[i]);
}

static void warn_about_newer(const pruning *p, size_t newest, size_t count)
{
    char kind[sizeof(lsi_path) + 16];
    const lsi_path path = path_of(p, newest);
    snprintf(kind, sizeof kind, "newer: %s", path.text);
    if (!lsi_checkpoint_cache_is_first(kind))
        return;
    if (lsi_checkpoint_verify_once(path.text) != LS_OK)
        lsi_log(LS_LOG_WARN,
                "the checkpoint '%s' is not intact: %s. It is newer than step "
                "%" PRId64
                ", which was just saved. Lockstep does not remove it, and does "
                "not count it among the checkpoints to keep. Remove it "
                "yourself, or use a separate folder for each run",
                path.text, ls_last_error(), p->saved);
    else
        lsi_log(
            LS_LOG_WARN,
            "'%s' already holds checkpoints newer than step %" PRId64
            ", which was just saved (number: %zu, newest: step %" PRId64
            "). A resumed run would start from the newest one. Lockstep does "
            "not remove the newer checkpoints, and does not count them among "
            "the checkpoints to keep. Use a separate folder for each run",
            p->folder, p->saved, count, p->steps[newest]);
}

/* Returns the index of the first older checkpoint. */
static size_t pass_newer(const pruning *p)
{
    size_t i = 0, newest = 0, count = 0;
    for (; i < p->n && p->steps[i] >= p->saved; i++) {
        if (p->steps[i] == p->saved || state_of(p, i) != LSI_STEP_ENDED)
            continue;
        if (count++ == 0)
            newest = i;
    }
    if (count > 0)
        warn_about_newer(p, newest, count);
    return i;
}

static void remove_step(const pruning *p, size_t i)
{
    if (lsi_step_remove(p->folder, p->steps[i]) != LS_OK &&
        lsi_checkpoint_cache_is_first(ls_last_error()))
        lsi_log(LS_LOG_WARN, "%s", ls_last_error());
}

static bool is_whole(const pruning *p, size_t i)
{
    if (lsi_checkpoint_verify_once(path_of(p, i).text) == LS_OK)
        return true;
    if (lsi_checkpoint_cache_is_first(ls_last_error()))
        lsi_log(LS_LOG_WARN,
                "an unreadable checkpoint does not count among the checkpoints "
                "to keep: %s",
                ls_last_error());
    return false;
}

static size_t count_ended(const pruning *p, size_t from)
{
    size_t n = 0;
    for (size_t i = from; i < p->n; i++)
        n += state_of(p, i) == LSI_STEP_ENDED;
    return n;
}

/* Checks which are intact only if there may be too many. */
static void remove_older(const pruning *p, size_t from)
{
    const bool too_many = p->keep > 0 && count_ended(p, from) >= p->keep;
    size_t whole = 1;
    for (size_t i = from; i < p->n; i++) {
        const lsi_step_state state = state_of(p, i);
        if (state == LSI_STEP_TORN && p->alone)
            remove_step(p, i);
        if (state != LSI_STEP_ENDED || !too_many)
            continue;
        if (whole >= p->keep)
            remove_step(p, i);
        else if (is_whole(p, i))
            whole++;
    }
}

/*
 * The newest `keep` intact checkpoints including the one just saved stay (0:
 * all), and all older ones are removed, intact or not. The remains of
 * unfinished saves of older steps are removed if no other process can be saving
 * there. Newer checkpoints and links are neither removed nor counted, and a
 * warning mentions newer ones once. A failure to remove something is not an
 * error.
 */
static void prune(const saving *s, int keep)
{
    int64_t *steps;
    size_t n;
    if (lsi_steps_list(s->folder, &steps, &n) != LS_OK)
        return;
    const pruning p = {s->folder,      s->step, (size_t)keep,
                       s->lock->alone, steps,   n};
    remove_older(&p, pass_newer(&p));
    lsi_free(steps);
}

/* ---- the end ------------------------------------------------------------- */

static ls_status finish(saving *s)
{
    if (ls_group_rank(s->group) != 0)
        return LS_OK;
    const lsi_manifest manifest = {.step = s->step,
                                   .ranks = ls_group_size(s->group),
                                   .optimizer = s->parts->optimizer,
                                   .values = s->parts->values,
                                   .model = s->model,
                                   .rank_files = s->all};
    LS_TRY(lsi_manifest_write(&manifest, s->step_folder.text));
    s->begun = false; /* also if another rank dies now */
    lsi_checkpoint_cache_add_intact(s->step_folder.text);
    return LS_OK;
}

static ls_status check_same_step(const saving *s)
{
    int64_t bounds[2] = {s->step, -s->step};
    LS_TRY(ls_all_reduce(s->group, bounds, bounds, 2, LS_I64, LS_REDUCE_MAX));
    if (bounds[0] == -bounds[1])
        return LS_OK;
    return lsi_fail(LS_ERR_MISMATCH,
                    "checkpoint: rank %d saves step %" PRId64
                    ", but the ranks' steps range from %" PRId64 " to %" PRId64
                    ". All ranks must save the same step",
                    ls_group_rank(s->group), s->step, -bounds[1], bounds[0]);
}

static ls_status write_all(saving *s, lsi_range share)
{
    bool agreed;
    LS_TRY(lsi_share_outcome(s->group, write_files(s, share), &agreed));
    return ls_all_gather(s->group, &s->own, s->all, sizeof s->own, LS_U8);
}

static ls_status save(saving *s, int keep)
{
    bool agreed;
    lsi_range share = {0, 0};
    LS_TRY(check_same_step(s));
    LS_TRY(lsi_params_part(s->group, s->parts->params, &share));
    LS_TRY(lsi_share_outcome(s->group, make_place(s), &agreed));
    LS_TRY(write_all(s, share));
    LS_TRY(lsi_share_outcome(s->group, finish(s), &agreed));
    /* Only after all ranks agree: after an error the older ones still exist. */
    if (ls_group_rank(s->group) == 0)
        prune(s, keep);
    return LS_OK;
}

ls_status lsi_checkpoint_save(ls_group *group, lsi_folder_lock *lock,
                              const char *folder, int64_t step,
                              const ls_checkpoint_parts *parts, int keep)
{
    saving s = {.group = group,
                .lock = lock,
                .folder = folder,
                .step = step,
                .parts = parts,
                .step_folder = lsi_step_folder(folder, step)};
    LSI_SPAN(PHASE, "checkpoint", 0, 0);
    const ls_status status = save(&s, keep);
    lsi_free(s.all);
    return s.begun ? clear_place(&s, status) : status;
}

ls_status ls_checkpoint_save(ls_group *group, const char *folder, int64_t step,
                             const ls_checkpoint_parts *parts, int keep)
{
    LS_NEED(group, folder, parts);
    ls_checkpoint_parts own;
    LS_TRY(LSI_STRUCT_READ(&own, parts, ls_checkpoint_parts, metadata));
    parts = &own;
    LS_NEED(parts->params);
    if (folder[0] == '\0')
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_checkpoint_save: the folder name is empty");
    if (step < 0 || keep < 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_checkpoint_save: step is %" PRId64
                        " and keep is %d; both must be at least 0",
                        step, keep);
    lsi_folder_lock lock = {.held = false};
    const ls_status status =
        lsi_checkpoint_save(group, &lock, folder, step, parts, keep);
    lsi_folder_lock_drop(&lock);
    return status;
}

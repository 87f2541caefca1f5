/*
 * Opening and loading a checkpoint. Rank 0 looks for the newest intact one and
 * checks it; the other ranks read the same manifest.
 */
#include "model/checkpoint/load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/api/outcome.h"
#include "model/autograd/params.h"
#include "model/checkpoint/find.h"
#include "model/checkpoint/manifest.h"
#include "model/checkpoint/optimizer_json.h"
#include "model/optim/param_group.h"
#include "model/tensor/safetensors.h"

struct ls_checkpoint {
    ls_group *group;
    json_t *manifest;
    int64_t step;
    lsi_path folder;
};

/* ---- opening ------------------------------------------------------------- */

static ls_status open_step(ls_checkpoint *c, const char *folder, int64_t most)
{
    bool agreed;
    ls_status status = LS_OK;
    if (ls_group_rank(c->group) == 0)
        status = lsi_checkpoint_newest(folder, most, &c->step);
    LS_TRY(lsi_share_outcome(c->group, status, &agreed));
    LS_TRY(ls_broadcast(c->group, &c->step, 1, LS_I64, 0));
    c->folder = lsi_step_folder(folder, c->step);
    status = lsi_step_check(c->folder.text, ls_group_rank(c->group));
    if (status == LS_OK)
        status = lsi_manifest_read(c->folder.text, &c->manifest);
    return lsi_share_outcome(c->group, status, &agreed);
}

ls_status ls_checkpoint_open(ls_checkpoint **out, ls_group *group,
                             const char *folder)
{
    return lsi_checkpoint_open(out, group, folder, INT64_MAX);
}

ls_status lsi_checkpoint_open(ls_checkpoint **out, ls_group *group,
                              const char *folder, int64_t most)
{
    LS_NEED(out, group, folder);
    if (folder[0] == '\0')
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_checkpoint_open: the folder name is empty");
    ls_checkpoint *c = NULL;
    bool agreed;
    ls_status status = lsi_alloc_zeroed(&c, sizeof(ls_checkpoint),
                                        LS_MEMORY_OTHER, "a checkpoint");
    status = lsi_share_outcome(group, status, &agreed);
    if (status != LS_OK) {
        lsi_free(c);
        return status;
    }
    c->group = group;
    status = open_step(c, folder, most);
    if (status != LS_OK) {
        ls_checkpoint_close(&c);
        return status;
    }
    *out = c;
    return LS_OK;
}

void ls_checkpoint_close(ls_checkpoint **checkpoint)
{
    if (checkpoint == NULL || *checkpoint == NULL)
        return;
    json_decref((*checkpoint)->manifest);
    lsi_free(*checkpoint);
    *checkpoint = NULL;
}

int64_t ls_checkpoint_step(const ls_checkpoint *checkpoint)
{
    return checkpoint != NULL ? checkpoint->step : -1;
}

const char *ls_checkpoint_value(const ls_checkpoint *checkpoint,
                                const char *key)
{
    if (checkpoint == NULL || key == NULL)
        return NULL;
    return json_string_value(
        json_object_get(json_object_get(checkpoint->manifest, "values"), key));
}

/* ---- the model ----------------------------------------------------------- */

static ls_status load_model(const ls_checkpoint *c, ls_params *params)
{
    const lsi_path path = lsi_path_in(c->folder.text, LSI_MODEL_FILE);
    return ls_params_load(params, path.text);
}

/* ---- the files of ranks -------------------------------------------------- */

typedef struct rank_files {
    const ls_params *params;
    lsi_safetensors_file *files;
    lsi_path *paths;
    int n;
} rank_files;

static void close_files(rank_files *f)
{
    for (int r = 0; r < f->n; r++)
        lsi_safetensors_close(&f->files[r]);
    lsi_free(f->files);
    lsi_free(f->paths);
}

static ls_status open_files(rank_files *f, const ls_checkpoint *c)
{
    const int ranks = lsi_manifest_ranks(c->manifest);
    if (ranks < 1)
        return lsi_fail(
            LS_ERR_FORMAT,
            "the checkpoint's manifest lists %d ranks; at least 1 is required",
            ranks);
    LS_TRY(lsi_alloc(&f->files, (size_t)ranks * sizeof(lsi_safetensors_file),
                     LS_MEMORY_OTHER, "files of a checkpoint"));
    LS_TRY(lsi_alloc(&f->paths, (size_t)ranks * sizeof(lsi_path),
                     LS_MEMORY_OTHER, "files of a checkpoint"));
    for (int r = 0; r < ranks; r++) {
        f->paths[r] = lsi_path_in(c->folder.text, lsi_rank_file(r, ranks).text);
        LS_TRY(lsi_safetensors_open(&f->files[r], f->paths[r].text));
        f->n++;
    }
    return LS_OK;
}

/* Where in a parameter the entry "state/parameter@begin" starts, or -1. */
static int64_t entry_begin(const lsi_safetensors_entry *e, const char *state,
                           const char *param)
{
    const size_t a = strlen(state), b = strlen(param);
    const char *name = e->name;
    if (strncmp(name, state, a) != 0 || name[a] != '/' ||
        strncmp(name + a + 1, param, b) != 0 || name[a + 1 + b] != '@' ||
        e->ndim != 1 || strcmp(e->dtype, "F32") != 0)
        return -1;
    return strtoll(name + a + 1 + b + 1, NULL, 10);
}

/* Reads an entry's part of the piece's elements, from `at` on; *n elements. */
static ls_status read_entry(const lsi_safetensors_file *file,
                            const lsi_safetensors_entry *e, int64_t begin,
                            const lsi_state_piece *piece, size_t at, size_t *n)
{
    const size_t place = piece->begin + at, first = (size_t)begin;
    const size_t end = first + (size_t)e->shape[0];
    *n = 0;
    if (place < first || place >= end)
        return LS_OK;
    *n = piece->n - at < end - place ? piece->n - at : end - place;
    return lsi_safetensors_read(file, e, (place - first) * sizeof(float),
                                piece->data + at, *n * sizeof(float));
}

/*
 * Reads some elements of the piece from `at` on, from the file that has them.
 */
static ls_status read_some(const rank_files *f, const lsi_state_piece *piece,
                           size_t at, size_t *n)
{
    const char *param = ls_params_name(f->params, piece->param);
    *n = 0;
    for (int r = 0; r < f->n; r++) {
        const lsi_safetensors_file *file = &f->files[r];
        for (size_t i = 0; i < file->n_entries; i++) {
            const lsi_safetensors_entry *e = &file->entries[i];
            const int64_t begin = entry_begin(e, piece->state, param);
            if (begin >= 0)
                LS_TRY(read_entry(file, e, begin, piece, at, n));
            if (*n > 0)
                return LS_OK;
        }
    }
    return lsi_fail(
        LS_ERR_FORMAT,
        "the checkpoint has no optimizer state '%s' for element %zu of '%s'",
        piece->state, piece->begin + at, param);
}

static ls_status load_piece(void *context, const lsi_state_piece *piece)
{
    size_t n;
    for (size_t at = 0; at < piece->n; at += n)
        LS_TRY(read_some(context, piece, at, &n));
    return LS_OK;
}

static ls_status load_buffers(const rank_files *f, int rank, ls_params *params)
{
    const lsi_path *const path = &f->paths[f->n < 2 ? 0 : rank % f->n];
    for (size_t i = 0; i < ls_params_buffer_count(params); i++) {
        char name[512];
        snprintf(name, sizeof name, "buffer/%s",
                 ls_params_buffer_name(params, i));
        const ls_named_tensor wanted = {name, ls_params_buffer(params, i)};
        LS_TRY(ls_safetensors_load(path->text, &wanted, 1));
    }
    return LS_OK;
}

static ls_status load_average(const char *path, const ls_params *params,
                              size_t index, float *average)
{
    char name[512];
    ls_tensor *tensor;
    const ls_tensor *const buffer = params->buffers.items[index]->tensor;
    snprintf(name, sizeof name, LSI_EMA_STATE "_buffer/%s",
             ls_params_buffer_name(params, index));
    LS_TRY(ls_tensor_wrap(&tensor, average, LS_F32, ls_tensor_ndim(buffer),
                          ls_tensor_shape(buffer), NULL));
    const ls_named_tensor wanted = {name, tensor};
    const ls_status status = ls_safetensors_load(path, &wanted, 1);
    ls_tensor_free(&tensor);
    return status;
}

static ls_status load_averages(const rank_files *f, int rank,
                               const ls_optimizer *optimizer)
{
    const lsi_path *const path = &f->paths[f->n < 2 ? 0 : rank % f->n];
    for (size_t i = 0; i < ls_params_buffer_count(f->params); i++) {
        float *const average = lsi_ema_buffer(optimizer, i);
        if (average != NULL)
            LS_TRY(load_average(path->text, f->params, i, average));
    }
    return LS_OK;
}

static ls_status load_parts(const ls_checkpoint *c, rank_files *f,
                            ls_params *params, ls_optimizer *optimizer)
{
    const lsi_range everything = {0, SIZE_MAX};
    LS_TRY(open_files(f, c));
    LS_TRY(load_buffers(f, ls_group_rank(c->group), params));
    if (optimizer == NULL)
        return LS_OK;
    lsi_optimizer_json_apply(json_object_get(c->manifest, "optimizer"),
                             optimizer);
    LS_TRY(load_averages(f, ls_group_rank(c->group), optimizer));
    return lsi_optimizer_pieces(optimizer, everything, load_piece, f);
}

static ls_status load(const ls_checkpoint *c, ls_params *params,
                      ls_optimizer *optimizer)
{
    if (optimizer != NULL)
        LS_TRY(lsi_ema_check_place(optimizer, "ls_checkpoint_load"));
    if (optimizer != NULL)
        LS_TRY(lsi_optimizer_json_check(
            json_object_get(c->manifest, "optimizer"), optimizer));
    LS_TRY(load_model(c, params));
    rank_files f = {.params = params};
    const ls_status status = load_parts(c, &f, params, optimizer);
    close_files(&f);
    return status;
}

ls_status ls_checkpoint_load(const ls_checkpoint *checkpoint, ls_params *params,
                             ls_optimizer *optimizer)
{
    bool agreed;
    LS_NEED(checkpoint, params);
    return lsi_share_outcome(checkpoint->group,
                             load(checkpoint, params, optimizer), &agreed);
}

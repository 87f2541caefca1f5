/*
 * Folders of checkpoints: names, lists, making and removing. Local.
 */
#ifndef LS_TRAIN_CHECKPOINT_FOLDER_H
#define LS_TRAIN_CHECKPOINT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

#define LSI_MODEL_FILE    "model.safetensors"
#define LSI_MANIFEST_FILE "manifest.json"

typedef struct lsi_path {
    char text[4096];
} lsi_path;

/* "folder/name"; the name alone if the folder is NULL. */
lsi_path lsi_path_in(const char *folder, const char *name);

/* Where the checkpoint of a step lies. */
lsi_path lsi_step_folder(const char *folder, int64_t step);

/* Whether that is the name of one, with or without a slash behind it. */
bool lsi_is_step_folder(const char *path);

/* The file of one of so many ranks. */
lsi_path lsi_rank_file(int rank, int ranks);

/*
 * The steps that have a folder, whole or not, newest first; none if there is no
 * such folder. *out is the caller's (lsi_free).
 */
ls_status lsi_steps_list(const char *folder, int64_t **out, size_t *n);

/* The newest step whose save came to its end; -1: there is none. */
ls_status lsi_steps_newest(const char *folder, int64_t *step);

/* Makes a folder, if it is not there, to which files can be written. */
ls_status lsi_folder_make(const char *folder);

/* Makes the folder of a step, and the one around it; both lie on the disk. */
ls_status lsi_step_make(const char *folder, int64_t step);

/* Whether this rank sees, too, the folder of a step that rank 0 sees. */
ls_status lsi_step_check(const char *step_folder);

/* Removes what there is of a step; its manifest goes first. */
ls_status lsi_step_remove(const char *folder, int64_t step);

#endif

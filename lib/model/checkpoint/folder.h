/*
 * Folders of checkpoints: names, lists, making and removing. Only files with
 * names that a save gives are removed, and only directly in a step's folder:
 * links are not followed. Local.
 */
#ifndef LS_MODEL_CHECKPOINT_FOLDER_H
#define LS_MODEL_CHECKPOINT_FOLDER_H

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

/* The folder of a step's checkpoint. */
lsi_path lsi_step_folder(const char *folder, int64_t step);

/*
 * The step whose folder has that name, with or without a trailing slash; or -1.
 */
int64_t lsi_step_of(const char *path);

/* The file of rank `rank` of `ranks`. */
lsi_path lsi_rank_file(int rank, int ranks);

/*
 * The steps that have a folder, whole or not, newest first; none if the folder
 * does not exist. *out is the caller's (lsi_free).
 */
ls_status lsi_steps_list(const char *folder, int64_t **out, size_t *n);

typedef enum lsi_step_state {
    LSI_STEP_ENDED, /* its save finished: it has a manifest */
    LSI_STEP_TORN,  /* without a manifest */
    LSI_STEP_OTHER  /* not a folder, a link to one, or unknown */
} lsi_step_state;

lsi_step_state lsi_step_find_state(const char *folder, int64_t step);

/* True also if its manifest cannot be examined. */
bool lsi_step_may_have_ended(const char *step_folder);

/* The newest step whose save finished, or may have; -1: none. */
ls_status lsi_steps_newest(const char *folder, int64_t *step);

/* Creates a folder and its missing parents; files can be written to it. */
ls_status lsi_folder_make(const char *folder);

/* Makes the folder of a step in an existing folder. */
ls_status lsi_step_make(const char *folder, int64_t step);

/*
 * Checks that this rank, too, sees the folder of a step in which rank 0 has
 * just read or written.
 */
ls_status lsi_step_check(const char *step_folder, int rank);

/*
 * Renames the entry with the name of a step to "unreadable-step-000000000123",
 * or "...-2" and so on, so that no list has it any more. *to is its new path.
 */
ls_status lsi_step_set_aside(const char *folder, int64_t step, lsi_path *to);

/*
 * Removes the files of a step, its manifest first; then also its folder, which
 * is an error if it has other files. LS_OK if the folder does not exist.
 */
ls_status lsi_step_clear(const char *folder, int64_t step);
ls_status lsi_step_remove(const char *folder, int64_t step);

#endif

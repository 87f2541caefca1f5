/*
 * Folders of checkpoints: names, lists, making and removing. What is removed
 * has a name that a save gives, and lies in a step's folder itself: no link is
 * followed. Local.
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

/* Where the checkpoint of a step lies. */
lsi_path lsi_step_folder(const char *folder, int64_t step);

/* The step whose folder has that name, with or without a slash behind; or -1.
 */
int64_t lsi_step_of(const char *path);

/* The file of one of so many ranks. */
lsi_path lsi_rank_file(int rank, int ranks);

/*
 * The steps that have a folder, whole or not, newest first; none if there is no
 * such folder. *out is the caller's (lsi_free).
 */
ls_status lsi_steps_list(const char *folder, int64_t **out, size_t *n);

typedef enum lsi_step_state {
    LSI_STEP_ENDED, /* its save came to its end: it has a manifest */
    LSI_STEP_TORN,  /* it has none */
    LSI_STEP_OTHER  /* no folder, a link to one, or it cannot be told */
} lsi_step_state;

lsi_step_state lsi_step_look(const char *folder, int64_t step);

/* Also if its manifest cannot be examined. */
bool lsi_step_may_have_ended(const char *step_folder);

/* The newest step whose save came to its end, or may have; -1: none. */
ls_status lsi_steps_newest(const char *folder, int64_t *step);

/* Creates a folder and its missing parents; files can be written to it. */
ls_status lsi_folder_make(const char *folder);

/* Makes the folder of a step in one that is there. */
ls_status lsi_step_make(const char *folder, int64_t step);

/*
 * Whether this rank sees the folder of a step, too, in which rank 0 has just
 * read or written.
 */
ls_status lsi_step_check(const char *step_folder, int rank);

/*
 * Renames whatever has the name of a step to "unreadable-step-000000000123", or
 * "...-2" and so on: no list has it any more. *to is its path then.
 */
ls_status lsi_step_set_aside(const char *folder, int64_t step, lsi_path *to);

/*
 * Removes the files of a step, its manifest first; then also its folder, which
 * is an error if anything else lies there. LS_OK if there is no such folder.
 */
ls_status lsi_step_clear(const char *folder, int64_t step);
ls_status lsi_step_remove(const char *folder, int64_t step);

#endif

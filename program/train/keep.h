/*
 * Where a run keeps its result: the trained model, and in the folder of the run
 * its metrics and its configuration, too. Rank 0 does this on its own machine;
 * all functions are local.
 */
#ifndef LS_TRAIN_KEEP_H
#define LS_TRAIN_KEEP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "model/checkpoint/folder.h"
#include "model/checkpoint/lock.h"
#include "train/reserve.h"

/* Files in a run's folder. The model is LSI_MODEL_FILE. */
#define LSI_KEEP_METRICS "metrics.jsonl"
#define LSI_KEEP_CONFIG  "run.json"
#define LSI_KEEP_LOCK    ".result.lock" /* while the run is not over */

typedef struct lsi_keep {
    const char *job;    /* the first word of a new folder's name */
    bool folder_wanted; /* the run has a folder */
    const char *folder; /* its path; NULL: a new one in runs/ */
    const char *file;   /* path of the model; NULL: in the folder, if any */
    bool resumes;       /* --resume, whether there is a checkpoint or not */
    uint64_t others;    /* bytes of all files but the model */
    /* Filled in by lsi_keep_open; "": none. */
    lsi_path place;               /* the folder */
    lsi_path model;               /* the model's file */
    bool made_parent, made_place; /* which folders this process has made */
    lsi_path above;       /* closest parent of `folder` that existed before */
    lsi_folder_lock lock; /* of the folder */
    uint64_t needed;      /* bytes of the result, at most */
    lsi_reserve room;     /* disk space reserved for the model */
    bool over;            /* the run has come to its end, or has diverged */
    uint64_t bytes;       /* size of the model's file; 0: not written yet */
    const char *note;     /* remark of the job about the saved model, or NULL */
} lsi_keep;

/* Whether there is anything to keep; false for NULL. */
static inline bool lsi_keep_is_wanted(const lsi_keep *keep)
{
    return keep != NULL && (keep->folder_wanted || keep->file != NULL);
}

/*
 * Makes the folder, locks it until lsi_keep_close, and reserves room on the
 * disk for the model. LS_ERR_IO where folder or model could not be written, or
 * less than `bytes` bytes and a margin are free there. LS_ERR_STATE if the
 * folder that was asked for holds the result of another run, or another process
 * has it locked. A result counts as that of this run if `continues` is true or
 * if an attempt before a restart left it. A run that failed before it had a
 * model left no result.
 * Nothing is made after an error. The keep must stay where it is until
 * lsi_keep_close.
 */
ls_status lsi_keep_open(lsi_keep *keep, uint64_t bytes, bool continues);

/*
 * Unlocks the folder. If it has no configuration nothing began: removes it. The
 * file of the lock stays if the run is not over: another run may begin there.
 */
void lsi_keep_close(lsi_keep *keep);

/*
 * Writes the configuration into the folder: the command, by which version, its
 * flags, and the list of those that the run has chosen, or NULL. The references
 * are taken over; flags of NULL are LS_ERR_MEMORY.
 */
ls_status lsi_keep_write_config(const lsi_keep *keep, const char *command,
                                json_t *flags, json_t *chosen);

/* Call it before the model is written: releases the room reserved for it. */
void lsi_keep_begin(lsi_keep *keep);

/*
 * Call it after the model is written: notes its size. If the model could not be
 * written: removes the files written with it. If the disk was full, the message
 * has the bytes that are needed and free.
 */
ls_status lsi_keep_end(lsi_keep *keep, ls_status status);

enum { LSI_KEEP_TEXT = 4200 };

/* "saved 'runs/lm-2026-11-26-1/model.safetensors' (3.4 MiB)", and the note. */
void lsi_keep_describe(const lsi_keep *keep, char out[LSI_KEEP_TEXT]);

#endif

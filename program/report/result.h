/*
 * Files that a command writes: checked before the work begins, written whole
 * at its end. "-" means standard output. A regular file is replaced by a
 * rename, so that it is either the old one or the whole new one; anything else
 * that already exists (a pipe, /dev/stdout) is written to as it is.
 */
#ifndef LS_REPORT_RESULT_H
#define LS_REPORT_RESULT_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lockstep/status.h"

/*
 * Whether `path` can be written, tried for real: LS_ERR_IO if not. Creates the
 * missing folders above it and leaves nothing else behind. NULL is fine.
 */
ls_status lsi_result_check(const char *path);

/* The same, and that it is a file that a rename can replace. */
ls_status lsi_result_check_file(const char *path);

/* Makes `bytes` bytes of `data` the contents of `path`. */
ls_status lsi_result_write(const char *path, const char *data, size_t bytes);

/* How JSON is written. */
typedef enum lsi_json_form {
    LSI_JSON_WIDE,  /* two blanks a level, 15 digits, a line end */
    LSI_JSON_NARROW /* one blank a level, all digits, no line end */
} lsi_json_form;

/*
 * The same of JSON, the reference to which it takes over; NULL is LS_ERR_MEMORY
 * ("no memory for WHAT").
 */
ls_status lsi_result_write_json(const char *path, json_t *json,
                                lsi_json_form form, const char *what);

/*
 * The same by a stream, for results of any size. What is printed to `file` goes
 * to a temporary file next to the target, which has no name where the system
 * can do that: a process that is killed leaves nothing. lsi_result_close
 * renames that file if all was stored and `status`, that of the printing, is
 * LS_OK. Otherwise the target stays what it was. Standard output, pipes and
 * devices are written to directly. A stream that was opened must be closed.
 */
typedef struct lsi_result_stream {
    FILE *file;
    const char *path;         /* the caller's */
    char target[PATH_MAX];    /* the file to replace; "": the stream writes to
                                 `path` itself */
    char temporary[PATH_MAX]; /* "": the file has no name yet */
} lsi_result_stream;

ls_status lsi_result_open(lsi_result_stream *stream, const char *path);
ls_status lsi_result_close(lsi_result_stream *stream, ls_status status);

/*
 * The same for a file that is replaced again and again: quick, because it is
 * not waited for until it is on the disk.
 */
ls_status lsi_result_replace(const char *path, const char *data, size_t bytes);

/* Whether the path is "-". False for NULL. */
bool lsi_result_is_stdout(const char *path);

/* Writes all of it to a descriptor; LS_ERR_IO names `what`. */
ls_status lsi_write_all(int fd, const char *data, size_t bytes,
                        const char *what);

/* The same of the file of that path, or "-". */
ls_status lsi_write_to_file(int fd, const char *data, size_t bytes,
                            const char *path);

#endif

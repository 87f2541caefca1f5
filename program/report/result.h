/*
 * Files that a command writes: checked ahead of the work, written whole at its
 * end. "-" means standard output. A regular file is replaced by a rename, so
 * that a reader sees the old file or the whole new one. Any other existing file
 * (a pipe, /dev/stdout) is written to directly.
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
 * Tests whether `path` can be written by trying: LS_ERR_IO if not. Creates
 * missing parent folders and leaves nothing else. NULL is fine.
 */
ls_status lsi_result_check(const char *path);

/* As lsi_result_check, and requires a file that a rename can replace. */
ls_status lsi_result_check_file(const char *path);

/* Makes `bytes` bytes of `data` the contents of `path`. */
ls_status lsi_result_write(const char *path, const char *data, size_t bytes);

/* Forms of JSON output. */
typedef enum lsi_json_form {
    LSI_JSON_WIDE,  /* two blanks a level, 15 digits, a line end */
    LSI_JSON_NARROW /* one blank a level, all digits, no line end */
} lsi_json_form;

/*
 * Writes JSON and takes over its reference; NULL is LS_ERR_MEMORY ("no memory
 * for WHAT").
 */
ls_status lsi_result_write_json(const char *path, json_t *json,
                                lsi_json_form form, const char *what);

/*
 * A stream for results of any size. Output to `file` goes to a temporary file
 * next to the target. Where the system supports it, this file has no name, so
 * that a killed process leaves nothing.
 *
 * lsi_result_close renames the file if all was stored and `status`, the result
 * of the printing, is LS_OK. Otherwise the target keeps its contents. Standard
 * output, pipes and devices are written to directly. An open stream must be
 * closed.
 */
typedef struct lsi_result_stream {
    FILE *file;
    const char *path;         /* path, owned by the caller */
    char target[PATH_MAX];    /* the file to replace; "": the stream writes to
                                 `path` itself */
    char temporary[PATH_MAX]; /* "": the file has no name yet */
} lsi_result_stream;

ls_status lsi_result_open(lsi_result_stream *stream, const char *path);
ls_status lsi_result_close(lsi_result_stream *stream, ls_status status);

/*
 * As lsi_result_write, for a file that is replaced again and again. It is
 * quick, since it does not wait until the file is on the disk.
 */
ls_status lsi_result_replace(const char *path, const char *data, size_t bytes);

/* Whether the path is "-". False for NULL. */
bool lsi_result_is_stdout(const char *path);

/* Writes all bytes to a descriptor; LS_ERR_IO names `what`. */
ls_status lsi_write_all(int fd, const char *data, size_t bytes,
                        const char *what);

/* Writes all bytes to the file of the path, or "-". */
ls_status lsi_write_to_file(int fd, const char *data, size_t bytes,
                            const char *path);

#endif

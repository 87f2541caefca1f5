/*
 * Selection lines in a file, as `lockstep tune` writes it:
 *
 *     # a comment
 *     machine: AMD EPYC 9654, 192 cpus
 *     all_reduce:0-8k:flat;8k-inf:direct|staged
 *     broadcast:0-inf:staged
 *
 * A file that was measured on another machine is an error.
 */
#ifndef LS_COMM_API_SELECT_FILE_H
#define LS_COMM_API_SELECT_FILE_H

#include <stddef.h>

#include "lockstep/status.h"

enum { LSI_SELECT_FILE_BYTES = 16 * 1024 };

/*
 * The selection lines of a file as one; `text` holds LSI_SELECT_FILE_BYTES.
 * Errors name the file and the line in it.
 */
ls_status lsi_select_read(const char *path, char *text);

/* The text of a selection file for this machine; cut to fit. Returns text. */
char *lsi_select_file_text(const char *line, int ranks, char *text,
                           size_t bytes);

#endif

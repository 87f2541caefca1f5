/*
 * Error reports of Python programs: the file that torch's @record writes to
 * TORCHELASTIC_ERROR_FILE, and the traceback on the error stream.
 */
#ifndef LS_LAUNCH_PYTHON_H
#define LS_LAUNCH_PYTHON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lockstep/status.h"

/*
 * Parses the text of an error file: {"message": {"message": "ValueError:
 * ..."}}, or {"message": "..."}. message[room] gets its first line. *json is
 * the whole file, released with json_decref. LS_ERR_FORMAT for any other text.
 */
ls_status lsi_python_error_parse(const char *text, size_t bytes, char *message,
                                 size_t room, json_t **json);

/* As lsi_python_error_parse, of a file; LS_ERR_IO if it cannot be read. */
ls_status lsi_python_error_read(const char *path, char *message, size_t room,
                                json_t **json);

/*
 * The last line of the last traceback in a text, such as "ValueError: 3", in
 * message[room]; false without a traceback. A prefix of "Traceback" on its line
 * ("[rank1]: ") is removed.
 */
bool lsi_python_last_line(const char *text, size_t bytes, char *message,
                          size_t room);

#endif

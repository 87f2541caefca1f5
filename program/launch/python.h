/*
 * What Python programs say of their end: the file that torch's @record writes
 * to TORCHELASTIC_ERROR_FILE, and the traceback on the error stream.
 */
#ifndef LS_LAUNCH_PYTHON_H
#define LS_LAUNCH_PYTHON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lockstep/status.h"

/*
 * The text of an error file: {"message": {"message": "ValueError: ..."}}, or
 * {"message": "..."}. message[room] gets the first line of it. *json is the
 * whole, to be given back by json_decref. LS_ERR_FORMAT for anything else.
 */
ls_status lsi_python_error_parse(const char *text, size_t bytes, char *message,
                                 size_t room, json_t **json);

/* Likewise of a file; LS_ERR_IO if there is none. */
ls_status lsi_python_error_read(const char *path, char *message, size_t room,
                                json_t **json);

/*
 * The last line of the last traceback in a text, such as "ValueError: 3", in
 * message[room]; false if there is none. What stands before "Traceback" on its
 * line ("[rank1]: ") is left out of it.
 */
bool lsi_python_last_line(const char *text, size_t bytes, char *message,
                          size_t room);

#endif

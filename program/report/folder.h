/*
 * The files of a folder that match a pattern, in the order of their names.
 */
#ifndef LS_REPORT_FOLDER_H
#define LS_REPORT_FOLDER_H

#include <glob.h>

#include "lockstep/status.h"

/*
 * `pattern` is for names in the folder, whose own name is taken as it is. None
 * is no error. *out is the caller's (globfree). LS_ERR_IO, LS_ERR_MEMORY.
 */
ls_status lsi_find_files(const char *folder, const char *pattern, glob_t *out);

#endif

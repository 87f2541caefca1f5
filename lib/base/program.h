/*
 * The path of the running program, which starts itself again as ranks.
 */
#ifndef LS_BASE_PROGRAM_H
#define LS_BASE_PROGRAM_H

#include "lockstep/status.h"

enum { LSI_PROGRAM_BYTES = 4096 };

/*
 * Called by main before it changes folders. Without /proc it finds argv[0], by
 * PATH if the name has no slash, and keeps the absolute path.
 */
void lsi_program_start(const char *argv0);

/* LS_ERR_SYSTEM if neither /proc nor argv[0] led to a program. */
ls_status lsi_program_path(char out[LSI_PROGRAM_BYTES]);

#endif

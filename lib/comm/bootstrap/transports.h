/*
 * The ways in which ranks connect. Each row of transports.def is one; its file
 * has `meet`, which waits at most `seconds` (0: for ever) for all ranks of the
 * world and opens their group.
 */
#ifndef LS_COMM_BOOTSTRAP_TRANSPORTS_H
#define LS_COMM_BOOTSTRAP_TRANSPORTS_H

#include <stddef.h>

#include "comm/bootstrap/environment.h"
#include "lockstep/group.h"

#define X(name, reaches, if_set, meet)                                         \
    ls_status meet(const lsi_world *world, double seconds, ls_group **out);
#include "comm/bootstrap/transports.def"
#undef X

typedef struct lsi_meeting {
    const char *name;
    enum { LSI_REACHES_MACHINE, LSI_REACHES_SEVERAL } reaches;
    const char *if_set; /* name of a variable, or NULL */
    ls_status (*meet)(const lsi_world *world, double seconds, ls_group **out);
} lsi_meeting;

/* The default, of ranks on one machine or on several. */
const lsi_meeting *lsi_meeting_for(bool several);

/* The row of that name, or NULL. */
const lsi_meeting *lsi_meeting_find(const char *name);

/* "shm, ucx or mpi"; cut to fit. Returns text. */
const char *lsi_meeting_names(char *text, size_t bytes);

#endif

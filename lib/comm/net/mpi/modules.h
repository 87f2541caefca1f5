/*
 * The module for the MPI by which the ranks were started.
 */
#ifndef LS_COMM_NET_MPI_MODULES_H
#define LS_COMM_NET_MPI_MODULES_H

#include "comm/state/wire.h"
#include "lockstep/status.h"

/*
 * Loads the module for the MPI whose launcher has set the environment, or the
 * one that LOCKSTEP_MPI names if both fit. The module stays for ever.
 */
ls_status lsi_mpi_load(const lsi_wire **out);

/*
 * Joins the other ranks. The module must see the ranks that the launcher has
 * announced. Otherwise the module is of another MPI, and the error names both.
 * Waits at most `seconds` (0: for ever).
 */
ls_status lsi_mpi_join(const lsi_wire *wire, int rank, int size,
                       double seconds);

/* "openmpi, mpich": the modules that are there; "" for none. Returns text. */
const char *lsi_mpi_modules(char *text, size_t bytes);

#endif

/*
 * Joining the ranks that MPI has started, and leaving them. A call of MPI that
 * waits for others never holds up the program for ever.
 */
#ifndef LS_COMM_NET_MPI_MPI_MEET_H
#define LS_COMM_NET_MPI_MPI_MEET_H

#include "comm/state/wire.h"

#ifdef MPI_VERSION /* mpi.h comes before this file, and need not be there */
extern MPI_Comm lsi_mpi_comm; /* that of the library; null until all have met */
#endif
extern char lsi_mpi_library[LSI_WIRE_LIBRARY_BYTES];
extern int lsi_mpi_highest_tag;

/*
 * MPI still refers to memory that it does not own any more, and would write
 * there when called. So it is not called.
 */
extern int lsi_mpi_stuck;

/* 0, or -1 with a sentence that says what went wrong. */
int lsi_mpi_check(int code, const char *what);

/* Sets the error text. Returns the result, which is not a success. */
int lsi_mpi_refuse(int result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* See `open`, `gather` and `close` of the wire. */
int lsi_mpi_open(double seconds);
int lsi_mpi_gather(const void *send, size_t bytes, void *recv, double seconds);
void lsi_mpi_close(void);

#endif

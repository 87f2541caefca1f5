/*
 * The thread that makes those calls of MPI which wait for others and cannot be
 * given up: to start, to make a communicator, to end. Whoever wants one waits
 * for it as long as it likes, and then knows that MPI is stuck in it.
 *
 * MPI may be started by any thread, and wants to be ended by the same one.
 */
#ifndef LS_COMM_NET_MPI_MPI_THREAD_H
#define LS_COMM_NET_MPI_MPI_THREAD_H

/*
 * What `call` returns; or LSI_WIRE_LATE after so many seconds (0: never), and
 * at once from then on. One caller at a time.
 */
int lsi_mpi_call(int (*call)(void), double seconds);

#endif

/*
 * The thread that makes the calls of MPI which wait for others and cannot be
 * given up: to start, to make a communicator, to end. A caller waits for such a
 * call as long as it likes, and then knows that MPI is stuck in it.
 *
 * MPI may be started by any thread, and must be ended by the same one.
 */
#ifndef LS_COMM_NET_MPI_MPI_THREAD_H
#define LS_COMM_NET_MPI_MPI_THREAD_H

/*
 * Returns the result of `call`; or LSI_WIRE_LATE after `seconds` seconds (0:
 * never), and at once from then on. One caller at a time.
 */
int lsi_mpi_call(int (*call)(void), double seconds);

#endif

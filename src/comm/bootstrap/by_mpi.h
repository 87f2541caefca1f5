/*
 * How ranks that a launcher of MPI has started find out who shares a machine.
 *
 * Each tells all others where it is (kernel, network namespace, user). Those
 * that are in one place meet there as without MPI: what makes them a node is
 * that they have mapped the same memory. If all are on one node, MPI's part is
 * over.
 */
#ifndef LS_COMM_BOOTSTRAP_BY_MPI_H
#define LS_COMM_BOOTSTRAP_BY_MPI_H

#include "comm/bootstrap/environment.h"
#include "lockstep/group.h"

ls_status lsi_meet_by_mpi(const lsi_world *world, double seconds,
                          ls_group **out);

#endif

/*
 * Operations on whole arrays, for the tape, the optimizers and all other code
 * that computes. An operation picks the kernels for this machine (only this
 * layer uses the table of lib/array/kernels), divides the work among threads,
 * and plans the work of oneDNN. Scalars are arrays of one element, which
 * operations read and write themselves.
 */
#ifndef LS_ARRAY_COMPUTE_COMPUTE_H
#define LS_ARRAY_COMPUTE_COMPUTE_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "lockstep/status.h"

/*
 * Whether LOCKSTEP_ISA is a level that this machine has. Checked when objects
 * that compute are made: groups, tensors, parameters, tapes, datasets.
 */
ls_status lsi_compute_check(void);

/*
 * All indices that an operation is given are checked here: LS_ERR_ARGUMENT with
 * the first that is not in 0..end-1, as "<what> <place> is <index>; ...".
 */
typedef struct lsi_indices {
    const int64_t *data;
    size_t n;
    int64_t stride; /* in elements */
} lsi_indices;
ls_status lsi_compute_check_indices(const char *what, lsi_indices indices,
                                    int64_t end);

#endif

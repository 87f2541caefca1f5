/*
 * Which bits results have: those of the fastest way on this processor, or the
 * same on every processor.
 */
#ifndef LOCKSTEP_BITS_H
#define LOCKSTEP_BITS_H

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_bits {
    LS_BITS_FAST = 0,
    LS_BITS_PORTABLE = 1 /* docs/concepts/numerics.md says what is the same */
} ls_bits;

/*
 * Sets the bits of the process from now on, in place of LOCKSTEP_BITS (default:
 * fast). All ranks of a job set the same. Call it before groups are opened and
 * before anything is computed: both may already have chosen their ways.
 * LS_ERR_ARGUMENT for another value. Local, for the process, from any thread.
 */
LS_API LS_MUST_CHECK ls_status ls_set_bits(ls_bits bits);

/* The bits that computations of this process have. */
LS_API ls_bits ls_bits_in_use(void);

#ifdef __cplusplus
}
#endif

#endif

/*
 * The names of ls_bits, and LOCKSTEP_BITS. They hold for the whole process.
 */
#ifndef LS_BASE_BITS_H
#define LS_BASE_BITS_H

#include <stdbool.h>

#include "lockstep/bits.h"

/*
 * Says why LOCKSTEP_BITS is neither "fast" nor "portable"; bits are fast then.
 * A value that ls_set_bits set hides the variable.
 */
ls_status lsi_bits_check(void);

/* Cheap: kernels call it in every operation. */
bool lsi_bits_are_portable(void);

/* LS_ERR_ARGUMENT for another name than "fast" and "portable". */
ls_status lsi_bits_parse(const char *name, ls_bits *out);
const char *lsi_bits_name(ls_bits bits);

#endif

/*
 * Which bits results have: those of the fastest way on this processor, or the
 * same on every processor. It holds for the whole process; LOCKSTEP_BITS or the
 * program sets it before anything is computed.
 */
#ifndef LS_BASE_BITS_H
#define LS_BASE_BITS_H

#include <stdbool.h>

#include "lockstep/status.h"

typedef enum lsi_bits { LSI_BITS_FAST, LSI_BITS_PORTABLE } lsi_bits;

void lsi_bits_set(lsi_bits bits);

/*
 * Says why LOCKSTEP_BITS is neither "fast" nor "portable"; bits are fast then.
 * A value that lsi_bits_set set hides the variable.
 */
ls_status lsi_bits_check(void);

bool lsi_bits_are_portable(void);

/* LS_ERR_ARGUMENT for another name than "fast" and "portable". */
ls_status lsi_bits_parse(const char *name, lsi_bits *out);
const char *lsi_bits_name(lsi_bits bits);

#endif

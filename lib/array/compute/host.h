/*
 * For the files that compute here: the operations by their host names, and
 * nothing else. One that called lsi_array_add would ask where the array lies
 * again, and a device whose memory is the host's would then wait for itself.
 */
#ifndef LS_ARRAY_COMPUTE_HOST_H
#define LS_ARRAY_COMPUTE_HOST_H

#include "array/compute/operations.h"

#define LSI_POISON(name)     LSI_PRAGMA(GCC poison name)
#define LSI_PRAGMA(text)     _Pragma(#text)
#define DO(name, where, ...) LSI_POISON(lsi_##name)
#define TRY                  DO
#define PLAN(name, where, ...)
#include "array/compute/operations.def"
#undef DO
#undef TRY
#undef PLAN

#endif

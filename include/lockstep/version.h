/*
 * The version of the headers a program was compiled against, and of the
 * library it runs with. Semantic versioning; before 1.0 a minor release may
 * change the interface.
 */
#ifndef LOCKSTEP_VERSION_H
#define LOCKSTEP_VERSION_H

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_VERSION_MAJOR  0
#define LS_VERSION_MINOR  1
#define LS_VERSION_PATCH  0
#define LS_VERSION_STRING "0.1.0"

/* major * 10000 + minor * 100 + patch, comparable as an integer. */
#define LS_VERSION_NUMBER                                                      \
    (LS_VERSION_MAJOR * 10000 + LS_VERSION_MINOR * 100 + LS_VERSION_PATCH)

/*
 * Whether the headers are of this version or a later one, also for #if. Of the
 * library that runs: ls_version_number() >= 10000 * major + 100 * minor +
 * patch.
 */
#define LS_VERSION_AT_LEAST(major, minor, patch)                               \
    (LS_VERSION_NUMBER >= (major)*10000 + (minor)*100 + (patch))

/* LS_VERSION_NUMBER of the library that is running. */
LS_API int ls_version_number(void);

/* LS_VERSION_STRING of the library that is running. Static. */
LS_API const char *ls_version_string(void);

#ifdef __cplusplus
}
#endif

#endif

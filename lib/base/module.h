/*
 * Finding and loading modules: parts of the library that need what is not on
 * every machine, each a shared library that exports one function. They lie in
 * a folder beside the library that is named for the version:
 * lockstep-0.1/liblockstep-NAME.so.
 */
#ifndef LS_BASE_MODULE_H
#define LS_BASE_MODULE_H

#include <stdbool.h>

#include "lockstep/status.h"

/* What a module implements: tables of functions, all of which begin so. */
typedef struct lsi_module_kind {
    const char *symbol; /* the function that it exports: const void *(void) */
    int version;        /* of the table that the function returns */
    bool global; /* what the module is linked to sees each other's symbols */
} lsi_module_kind;

bool lsi_module_is_there(const char *name);

/*
 * Loads one, which stays for ever; *table begins with an int, its version.
 * LS_ERR_UNSUPPORTED if it cannot be used.
 */
ls_status lsi_module_load(const char *name, const lsi_module_kind *kind,
                          const void **table);

#endif

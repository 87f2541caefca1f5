/*
 * Finding and loading modules: parts of the library with requirements that not
 * every machine meets. Each is a shared library that exports one function. They
 * are in a folder next to the library, named after the version:
 * lockstep-0.1/liblockstep-NAME.so.
 */
#ifndef LS_BASE_MODULE_H
#define LS_BASE_MODULE_H

#include <stdbool.h>

#include "lockstep/status.h"

/* The beginning of each table of functions that a module implements. */
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

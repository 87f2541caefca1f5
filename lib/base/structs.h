/*
 * Reading and filling structs of programs that were compiled against other
 * headers: those that begin with `size_t struct_size` (docs/reference/abi.md).
 */
#ifndef LS_BASE_STRUCTS_H
#define LS_BASE_STRUCTS_H

#include <stddef.h>

#include "lockstep/status.h"

/* A struct as this library knows it. */
typedef struct lsi_struct_layout {
    const char *name;
    size_t first; /* bytes that it had in the first version with a size */
    size_t known; /* bytes that it has now */
} lsi_struct_layout;

/*
 * Copies a program's struct to `to`, of layout->known bytes: members that the
 * program does not know are zero, and to->struct_size is layout->known.
 * LS_ERR_ARGUMENT if the size is none that any version had, or the program has
 * set members that this library does not know; `to` is untouched then. `from`
 * may be aligned as the struct, and no more bytes of it are read than its size
 * says.
 */
ls_status lsi_struct_read(void *to, const void *from,
                          const lsi_struct_layout *layout);

/*
 * The same of a type by name, whose first version ended with member `last`. The
 * bytes that pad it to its alignment are not its own: a member that is added
 * later must not lie there.
 */
#define LSI_STRUCT_READ(to, from, type, last)                                  \
    lsi_struct_read(                                                           \
        (to), (from),                                                          \
        &(lsi_struct_layout){#type,                                            \
                             offsetof(type, last) + sizeof(((type *)0)->last), \
                             sizeof(type)})

/*
 * Fills a program's struct from one of this library: as many bytes as
 * to->struct_size says, zeros in members that only the program knows.
 * to->struct_size stays. LS_ERR_ARGUMENT if no version had that size; `to` is
 * untouched then.
 */
ls_status lsi_struct_write(void *to, const void *from,
                           const lsi_struct_layout *layout);

/* lsi_struct_write of a type by name; `last` as in LSI_STRUCT_READ. */
#define LSI_STRUCT_WRITE(to, from, type, last)                                 \
    lsi_struct_write(                                                          \
        (to), (from),                                                          \
        &(lsi_struct_layout){#type,                                            \
                             offsetof(type, last) + sizeof(((type *)0)->last), \
                             sizeof(type)})

#endif

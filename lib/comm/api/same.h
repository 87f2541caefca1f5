/*
 * Lists that must be the same on all ranks, such as the parameters of a model.
 */
#ifndef LS_COMM_API_SAME_H
#define LS_COMM_API_SAME_H

#include "lockstep/group.h"

enum { LSI_LINE_BYTES = 320 };

typedef struct lsi_listing {
    const void *list;
    size_t n;
    /* A short description of item i: "parameter 'w' (3, 4)". */
    void (*line)(const void *list, size_t i, char text[LSI_LINE_BYTES]);
    const char *what; /* name of the list: "model" */
} lsi_listing;

/*
 * LS_OK if all ranks have the same lines. Otherwise LS_ERR_MISMATCH on all
 * ranks, with the first line in which they differ. Allocates nothing.
 * Collective.
 */
ls_status lsi_same_listing(ls_group *group, const lsi_listing *own);

#endif

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
    /* What item i is, in a few words: "parameter 'w' (3, 4)". */
    void (*line)(const void *list, size_t i, char text[LSI_LINE_BYTES]);
    const char *what; /* the list is: "model" */
} lsi_listing;

/*
 * LS_OK if all ranks have the same lines; else LS_ERR_MISMATCH with the first
 * in which they differ, the same on all. Allocates nothing. Collective.
 */
ls_status lsi_same_listing(ls_group *group, const lsi_listing *own);

#endif

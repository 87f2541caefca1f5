/* Arrays as operations along one axis see them. */
#ifndef LS_ARRAY_COMPUTE_ALONG_H
#define LS_ARRAY_COMPUTE_ALONG_H

#include <stddef.h>

/* A dense array (outer, n, inner) whose axis is the one in the middle. */
typedef struct lsi_along {
    size_t outer, n, inner;
} lsi_along;

#endif

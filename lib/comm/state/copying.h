/* For what the kernel's copy is faster than the windows (coll/copy_probe.h). */
#ifndef LS_COMM_STATE_COPYING_H
#define LS_COMM_STATE_COPYING_H

typedef enum lsi_copying {
    LSI_COPYING_UNKNOWN,
    LSI_COPYING_LOSES,
    LSI_COPYING_MOVES, /* only for what moves data */
    LSI_COPYING_PAYS   /* for reductions, too */
} lsi_copying;

#endif

/* The products of layers, for profile.c: kernels with an id (spans.h). */
#ifndef LS_REPORT_PROFILE_LAYERS_H
#define LS_REPORT_PROFILE_LAYERS_H

#include "report/profile.h"

/* A search for the layers of one process after the other. */
typedef struct lsi_profile_layers {
    int32_t *known; /* by id: 1 + index of the profile's layer, 0: none yet */
    size_t ids;
    size_t room; /* of the profile's list */
} lsi_profile_layers;

/* Begins a process, whose ids have another meaning. */
ls_status lsi_profile_layers_begin(lsi_profile_layers *layers,
                                   const lsi_timeline_process *process);
void lsi_profile_layers_end(lsi_profile_layers *layers);

/* Counts a kernel of the process if it is the product of a layer. */
ls_status lsi_profile_count_layer(lsi_profile_layers *layers,
                                  lsi_profile *profile,
                                  const lsi_timeline_process *process,
                                  const lsi_timeline_span *span,
                                  const char *kernel);

#endif

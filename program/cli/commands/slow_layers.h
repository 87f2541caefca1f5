/*
 * The products of layers in a profile (report/profile.h): the slow ones as
 * text, all as JSON.
 */
#ifndef LS_CLI_COMMANDS_SLOW_LAYERS_H
#define LS_CLI_COMMANDS_SLOW_LAYERS_H

#include <jansson.h>

#include "report/profile.h"

/*
 * A sentence, and a table of the products below LSI_PROFILE_SLOW of the product
 * rate: of `most` at most, the largest gain first. The layers are sorted. peaks
 * of 0: not known.
 */
ls_status lsi_slow_layers_print(const lsi_profile *profile,
                                const lsi_profile_peaks *peaks, size_t most);

/* A row for each product of a layer; *out is a new reference. */
ls_status lsi_layers_json(const lsi_profile *profile,
                          const lsi_profile_peaks *peaks, json_t **out);

#endif

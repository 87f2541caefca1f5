/*
 * The layer of a parameter: its name up to the last part that is a number
 * ("blocks.3"), or else up to the last part ("head").
 */
#ifndef LS_MODEL_PARALLEL_LAYER_NAME_H
#define LS_MODEL_PARALLEL_LAYER_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observe/spans.h"

/* Bytes of a parameter's name up to the end of its layer's name. */
size_t lsi_layer_name_length(const char *parameter);

/* Whether parameters of these names, defined in a row, are of one layer. */
bool lsi_is_same_layer(const char *a, const char *b);

/*
 * Records a span that ends now, under the name of the parameter's layer, whose
 * id is `node`: its lowest rank of the group. Nothing if span.begin is 0.
 */
void lsi_layer_span_end(lsi_span_kind kind, const char *parameter,
                        lsi_span span, int node);

#endif

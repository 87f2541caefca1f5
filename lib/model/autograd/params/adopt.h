/*
 * Parameters whose memory is the program's (ls_params_adopt).
 *
 * An f32 parameter is used in place. Then the weights of a set are not one flat
 * buffer but *scattered*, and walks over the flat layout get the pieces from
 * lsi_params_weights. In two other cases the program's memory is a copy that is
 * written after each change of the weights. Either it has a half type, and the
 * set holds the f32 values; or a strategy has moved the weights to memory that
 * ranks share (lsi_params_share).
 */
#ifndef LS_MODEL_AUTOGRAD_PARAMS_ADOPT_H
#define LS_MODEL_AUTOGRAD_PARAMS_ADOPT_H

#include "model/autograd/params/storage.h"

/* Whether the set can use the program's memory itself. */
bool lsi_param_fits_in_place(const lsi_param *param);

/*
 * Finds the pieces of the set during layout. Does nothing without adopted ones.
 */
ls_status lsi_params_find_places(ls_params *params);

/* Copies the program's values to the set's memory. */
void lsi_param_read_adopted(const lsi_param *param);

/*
 * The weights at element `at` of the flat layout. *n is the number of wanted
 * elements, and becomes the number of contiguous elements there. NULL if they
 * are padding without memory.
 */
float *lsi_params_weights(const ls_params *params, size_t at, size_t *n);

/* All trained weights, laid out flat, to `out`. */
void lsi_params_copy_weights(const ls_params *params, float *out);

/*
 * Updates the program's copies after a change of weights; with trained_only,
 * only copies of trained parameters. Local.
 */
void lsi_params_write_back(const ls_params *params, bool trained_only);

/*
 * Accepts parameter `index`'s gradient, computed by the program. Afterwards it
 * is in the flat buffer and counts as written.
 */
void lsi_params_accept_grad(ls_params *params, size_t index);

/* Copies the flat buffer's values to adopted gradients. */
void lsi_params_write_back_grads(const ls_params *params);

#endif

/*
 * Parameters whose memory is the program's (ls_params_adopt).
 *
 * An f32 parameter is used where it lies: the weights of a set are then not one
 * flat buffer but *scattered*, and who walks over the flat layout asks for the
 * pieces (lsi_params_weights). Otherwise the program's memory is a copy that is
 * written whenever the weights have changed: it is of a half type, and the set
 * has the f32 values; or a strategy has moved the weights to memory that ranks
 * share (lsi_params_share).
 */
#ifndef LS_MODEL_AUTOGRAD_PARAMS_ADOPT_H
#define LS_MODEL_AUTOGRAD_PARAMS_ADOPT_H

#include "model/autograd/params/storage.h"

/* Whether the set can use the program's memory itself. */
bool lsi_param_fits_in_place(const lsi_param *param);

/* While the set is laid out: which pieces it has. Nothing if none is adopted.
 */
ls_status lsi_params_find_places(ls_params *params);

/* The values that the program has, into memory of the set's own. */
void lsi_param_read_adopted(const lsi_param *param);

/*
 * The weights at element `at` of the flat layout, of which *n is how many are
 * wanted; it becomes how many follow each other there. NULL if those are
 * padding that has no memory.
 */
float *lsi_params_weights(const ls_params *params, size_t at, size_t *n);

/* All trained weights, laid out flat, to `out`. */
void lsi_params_copy_weights(const ls_params *params, float *out);

/*
 * Weights have changed: the program's copies become those, or only those of
 * trained parameters. Local.
 */
void lsi_params_write_back(const ls_params *params, bool trained_only);

/* The program has made parameter `index`'s gradient; it is in the flat buffer
 * afterwards, and counts as written. */
void lsi_params_take_grad(ls_params *params, size_t index);

/* Adopted gradients become what the flat buffer has. */
void lsi_params_give_grads(const ls_params *params);

#endif

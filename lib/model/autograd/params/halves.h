/*
 * Parameters in a half type, once for all ranks of a node that share one copy.
 * A set for inference may have nothing but halves of a parameter
 * (lsi_params_set_dtype). Otherwise they are trained parameters rounded to that
 * type.
 *
 * A rank rounds its part as its optimizer updates it. The ranks synchronise at
 * the end of the step, and no rank reads before that. At other times (at the
 * start, or after a program has written weights) a rank checks a parameter's
 * halves by itself before it uses them. It writes only outdated halves, so it
 * never writes memory that another rank may be reading.
 *
 * Only one type is shared, the first one requested. For another type each rank
 * has private copies.
 */
#ifndef LS_MODEL_AUTOGRAD_PARAMS_HALVES_H
#define LS_MODEL_AUTOGRAD_PARAMS_HALVES_H

#include "model/autograd/params/page_guard.h"
#include "model/autograd/params/storage.h"

/* Shared copies of the trained parameters in a half type. */
typedef struct lsi_halves {
    void *home; /* this rank's part; NULL: none */
    uint16_t *first;
    void *header;
    size_t bytes, counted;
    uint64_t rounded; /* version of the set when this rank's part was rounded */
    lsi_page_guard guard; /* of those that other nodes own */
} lsi_halves;

/*
 * Memory for the halves of parameters that ranks share as one copy. It is made
 * and freed together with the copy; both are collective. It can be used after
 * the ranks have synchronised.
 */
ls_status lsi_params_share_halves(ls_params *params, ls_group *group,
                                  size_t capacity);
void lsi_params_leave_halves(ls_params *params);

/* The place of the parameter's halves if ranks share them, else NULL. */
ls_status lsi_param_half_place(lsi_param *param, ls_dtype dtype, void **out);

/* Updates the parameter's shared halves to its current value. */
void lsi_param_update_half(lsi_param *param);

/* The half type that the ranks of the node share; LS_F32: none so far. */
ls_dtype lsi_params_half_type(const ls_params *params);

/*
 * The halves of elements that this node keeps, up to date, if that is the
 * shared type, or becomes it; else NULL.
 */
void *lsi_params_halves_here(ls_params *params, ls_dtype dtype,
                             lsi_range elements);

/*
 * Between the two synchronisations of an optimizer's step: lsi_params_round
 * rounds an updated range, lsi_params_rounded marks everything as rounded. Both
 * do nothing without shared halves.
 */
void lsi_params_round(ls_params *params, lsi_range range);
void lsi_params_rounded(ls_params *params);

#endif

/*
 * Trained parameters rounded to a half type, once for all ranks of a node that
 * have one copy of the parameters.
 *
 * A rank rounds its part as its optimizer moves it; the ranks synchronise at
 * the end of the step, and no rank reads before that. At other times, at the
 * start or after a program has written weights, a rank that is about to use a
 * parameter checks on its own whether its halves are up to date, and writes
 * only those that are not: so nothing is written that another rank may be
 * reading.
 *
 * Only one type is shared, the first one requested. For another type each rank
 * has copies of its own.
 */
#ifndef LS_MODEL_AUTOGRAD_PARAMS_HALVES_H
#define LS_MODEL_AUTOGRAD_PARAMS_HALVES_H

#include "model/autograd/params/storage.h"

/* Shared copies of the trained parameters in a half type. */
typedef struct lsi_halves {
    void *home; /* this rank's part; NULL: there are none */
    uint16_t *first;
    void *header;
    size_t bytes, counted;
} lsi_halves;

/*
 * Room for the halves of parameters of which there is one copy: made with it
 * and freed with it, both collective. It can be used when ranks have met.
 */
ls_status lsi_params_share_halves(ls_params *params, ls_group *group,
                                  size_t capacity);
void lsi_params_leave_halves(ls_params *params);

/* Where the parameter's halves go if ranks share them, else NULL. */
ls_status lsi_param_half_place(lsi_param *param, ls_dtype dtype, void **out);

/* Makes the parameter's shared halves those of its present value. */
void lsi_param_look_at_halves(lsi_param *param);

/*
 * Between the two meetings of an optimizer's step: rounds what has moved; all
 * of it has been rounded. Nothing if there are no shared halves.
 */
void lsi_params_round(ls_params *params, lsi_range range);
void lsi_params_rounded(ls_params *params);

#endif

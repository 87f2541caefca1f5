/*
 * Checks an operation against a function in double precision that knows
 * nothing of it: the forward values, and the gradients against central
 * differences of that function.
 *
 * The loss is L = sum of w_i y_i with fixed weights w of either sign, so that
 * every output counts and none by the same amount. The difference
 * (L(x + h) - L(x - h)) / 2h, h = 1e-5, is off by h^2 L'''/6 + eps64 |L| / h,
 * about 1e-10 here. This is small compared with f32's 6e-8.
 *
 * The error bound of f32: each value is a sum of at most `terms` products whose
 * factors are at most `gain` in all. So rounding is at most
 * (terms + 8) terms gain 2^-24 where 8 is for the roundings around the sum.
 */
#ifndef LS_TEST_GRADCHECK_H
#define LS_TEST_GRADCHECK_H

#include "model/autograd/ops/ops.h"
#include "testing.h"

enum { GRADCHECK_MAX_INPUTS = 3, GRADCHECK_MAX_NUMEL = 4096 };

/* The elements of an input. */
typedef enum gradcheck_fill {
    FILL_UNIFORM,  /* in [-1, 1] */
    FILL_GRID,     /* multiples of 1/8 in [-1, 1] */
    FILL_OFF_GRID, /* the same + 1/128: sums with products of those are not 0 */
    FILL_DISTINCT  /* differ from each other and from 0 by 0.01 or more */
} gradcheck_fill;

typedef struct gradcheck_input {
    int ndim;
    int64_t shape[4];
    gradcheck_fill fill;
} gradcheck_input;

/* One array of inputs, the values of the operation in y; `use` as for run. */
typedef void (*gradcheck_reference)(double *y, const double *const *in,
                                    int use);

typedef struct gradcheck_case {
    const char *op;    /* a row of ops.def */
    const char *label; /* which case of it */
    int n_inputs;
    gradcheck_input in[GRADCHECK_MAX_INPUTS];
    /* Use 0 or 1 of the operation on one tape. */
    ls_tensor *(*run)(ls_tape *tape, ls_tensor *const *in, int use);
    gradcheck_reference reference;
    /* NULL: reference. Else what `run` really computes, which has no useful
     * difference quotient (rounding). */
    gradcheck_reference forward;
    double terms, gain;
} gradcheck_case;

/*
 * Runs the case four ways: inputs watched; inputs as parameters and used twice,
 * so that gradients accumulate; inputs as transposed views; through a second
 * reader, so that an intermediate gradient accumulates.
 */
void gradcheck_run(const gradcheck_case *c);

/* The cases, by family. */
extern const gradcheck_case gradcheck_attention[];
extern const size_t gradcheck_attention_count;
extern const gradcheck_case gradcheck_elementwise[];
extern const size_t gradcheck_elementwise_count;
extern const gradcheck_case gradcheck_images[];
extern const size_t gradcheck_images_count;
extern const gradcheck_case gradcheck_layers[];
extern const size_t gradcheck_layers_count;
extern const gradcheck_case gradcheck_shapes[];
extern const size_t gradcheck_shapes_count;
extern const gradcheck_case gradcheck_transformer[];
extern const size_t gradcheck_transformer_count;

#endif

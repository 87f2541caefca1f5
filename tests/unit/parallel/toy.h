/*
 * The two toy models on which data parallelism is judged: a frozen bias, a
 * frozen parameter that nobody uses, a weight that is used twice. They are
 * trained on all rows by one process alone, and on shares of them by several.
 */
#ifndef LS_TEST_TOY_H
#define LS_TEST_TOY_H

#include "lockstep/optim.h"
#include "lockstep/parallel.h"

enum { TOY_ROWS = 20, TOY_IN = 10, TOY_OUT = 5 };

typedef struct toy {
    bool tied;
    ls_params *params;
    ls_tensor *fc1, *fc2, *fc2_bias, *fc3, *out, *frozen;
    ls_tape *tape;
} toy;

/* group may be NULL. */
void toy_make(toy *t, bool tied, ls_group *group, uint64_t seed);
void toy_destroy(toy *t);

/*
 * The mean of squares over rows begin..end-1 of those of a step, whose order
 * is shuffled. The tape keeps the inputs.
 */
ls_tensor *toy_loss(toy *t, int step, int begin, int end);

/* Whether all parameters agree to a part in 1e5, and `absolute`. */
bool toy_close(const toy *a, const toy *b, double absolute);

/* Whether all parameters are the same bits. */
bool toy_same(const toy *a, const toy *b);

#endif

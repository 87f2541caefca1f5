/*
 * The optimizers, and the defaults of the command line; the defaults of C
 * programs are LS_..._OPTIONS_INIT. A row declares lsi_optimizer_<name>
 * (model/optim/optimizer.h).
 *
 *     OPTIMIZER(name, lr, weight_decay)
 *
 * An optimizer's flags follow its row, in addition to --lr and --weight-decay,
 * which all have. `read` of the optimizer reads the field. REAL is a number,
 * CHOICE a text.
 *
 *     FLAG(KIND, owner, field, "flag", "VALUE", default, "help", limits)
 *
 * The decay of Lion is as strong as that of AdamW: a step subtracts lr *
 * weight_decay of a weight.
 */
#ifndef LS_MODEL_OPTIM_OPTIMIZERS_H
#define LS_MODEL_OPTIM_OPTIMIZERS_H

/*
 * The default, and the default for training a language model. A file that wants
 * the latter defines LSI_USUAL before it includes this header.
 */
#ifndef LSI_USUAL
#    define LSI_USUAL(all, lm) all
#endif

/* clang-format off */
#define LSI_OPTIMIZERS(OPTIMIZER, FLAG)                                               \
    OPTIMIZER(sgd, 0.01, 0)                                                           \
    FLAG(REAL, sgd, momentum, "momentum", "X", 0.5, "momentum of sgd",                \
         .min = 0, .max = 0.999999)                                                   \
    OPTIMIZER(adamw, 0.001, 0.01)                                                     \
    FLAG(REAL, adamw, beta1, "beta1", "X", 0.9,                                       \
         "decay rate of adamw's mean of the gradients", .min = 0, .max = 0.999999)    \
    FLAG(REAL, adamw, beta2, "beta2", "X", LSI_USUAL(0.999, 0.95),                    \
         "decay rate of adamw's mean of the squared gradients", .min = 0,             \
         .max = 0.999999)                                                             \
    FLAG(REAL, adamw, eps, "eps", "X", 1e-8,                                          \
         "number that adamw adds to the denominator of its step", .min = 1e-30,       \
         .max = 1)                                                                    \
    FLAG(CHOICE, adamw, decay_order, "decay-order", "ORDER", "first",                 \
         "apply adamw's weight decay before the step (first, as in PyTorch) or "      \
         "after it (last)",                                                           \
         .choices = "first|last")                                                     \
    OPTIMIZER(lion, 0.0001, 0.1)                                                      \
    FLAG(REAL, lion, lion_beta1, "lion-beta1", "X", 0.9,                              \
         "share of the momentum in the direction of lion's step; the gradient's "     \
         "share is 1 - X", .min = 0, .max = 0.999999)                                 \
    FLAG(REAL, lion, lion_beta2, "lion-beta2", "X", 0.99,                             \
         "decay rate of lion's momentum from step to step", .min = 0,                 \
         .max = 0.999999)
/* clang-format on */

/* Stands in for OPTIMIZER or FLAG in a list of the other one. */
#define LSI_OPTIMIZER_NOT(...)

#endif

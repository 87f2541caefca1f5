/*
 * Parameters of a model: an ordered set of named tensors that are trained, and
 * of named buffers (running statistics) that are not.
 *
 * A set is filled first and allocated once. All parameters are then stored in
 * one flat buffer and all gradients in another, both in reverse order of
 * definition. So the gradient that backward finishes first comes first, and a
 * bucket is a range.
 */
#ifndef LOCKSTEP_PARAMS_H
#define LOCKSTEP_PARAMS_H

#include "lockstep/group.h"
#include "lockstep/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_params ls_params;

/*
 * The initial values of a parameter. They are computed when somebody first
 * needs them, after ls_params_allocate.
 */
typedef enum ls_init_kind {
    LS_INIT_CONSTANT,        /* a */
    LS_INIT_UNIFORM,         /* in [a, b) */
    LS_INIT_NORMAL,          /* mean a, standard deviation b */
    LS_INIT_TRUNCATED_NORMAL /* as NORMAL, cut at three deviations */
} ls_init_kind;

typedef struct ls_init {
    ls_init_kind kind;
    double a, b;
} ls_init;

/* An empty set. On success *out is the caller's, freed by ls_params_free. */
LS_API LS_MUST_CHECK ls_status ls_params_new(ls_params **out);

/*
 * Frees the set, its tensors and gradients. Sets *params to NULL; accepts
 * NULLs. Collective if the set was allocated with a group, which must still be
 * open.
 */
LS_API void ls_params_free(ls_params **params);

/*
 * Adds an f32 parameter. *out is owned by the set; its shape is known at once,
 * its data after ls_params_allocate. The name is copied and must be new.
 */
LS_API LS_MUST_CHECK ls_status ls_params_add(ls_params *params,
                                             const char *name, int ndim,
                                             const int64_t *shape, ls_init init,
                                             ls_tensor **out);

/* Memory of a program's that holds a parameter. */
typedef struct ls_param_memory {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    void *data;         /* the weights, row-major and without gaps */
    ls_dtype dtype;     /* of those: LS_F32, LS_BF16 or LS_F16 */
    void *grad;         /* the gradient, in the same way, or NULL */
    ls_dtype grad_dtype;
} ls_param_memory;

/*
 * As ls_params_add for weights that the program has already, such as those of
 * another framework. The program keeps both blocks. They must be aligned to an
 * element, must not overlap those of another parameter, and must not move until
 * ls_params_free; the set never frees them. *memory is copied.
 *
 * Weights are what the program has at ls_params_allocate. Those of f32 are used
 * where they lie: an optimizer's step is seen there, and what the program
 * writes is seen by the set (see ls_params_changed). ls_params_flat is NULL
 * then. For half types the set has separate f32 values, which optimizers
 * update. The program's are written, rounded to nearest, after each step and in
 * ls_params_changed, and not read again. The same holds for any type after an
 * ls_ddp_new with strategy "zero1", "shared" or "fsdp".
 *
 * `grad` is where a custom backward stores the gradient. It is read by
 * ls_ddp_ready; ls_ddp_finish writes the mean there, if this rank gets all of
 * it. With NULL that backward writes to ls_grad's memory, which saves both
 * copies. ls_backward does not write to `grad`.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status ls_params_adopt(
    ls_params *params, const char *name, int ndim, const int64_t *shape,
    const ls_param_memory *memory, ls_tensor **out);

/*
 * As ls_params_add for a buffer: saved with the model (ls_params_save), never
 * trained.
 */
LS_API LS_MUST_CHECK ls_status ls_params_add_buffer(ls_params *params,
                                                    const char *name, int ndim,
                                                    const int64_t *shape,
                                                    ls_init init,
                                                    ls_tensor **out);

/*
 * Marks a parameter as not trained (false) or trained (true, the default).
 * Call it before ls_params_allocate.
 */
LS_API LS_MUST_CHECK ls_status ls_params_set_trainable(ls_params *params,
                                                       ls_tensor *param,
                                                       bool trainable);

/*
 * Cuts the batch of this rank into 1..64 slices, each with separate gradients;
 * call it before ls_params_allocate. Each slice's gradient is summed over its
 * samples alone. Before ranks reduce, a rank folds its slices as ranks are
 * folded. So m slices on each of N ranks give the bits of one slice on each of
 * m N ranks, for powers of 2 (docs/concepts/numerics.md). Each slice but the
 * first takes as much memory as the gradients. ls_grad is the gradient of slice
 * 0 until ls_params_finish_grad. An operation that cannot cut the gradient of a
 * parameter fails in ls_backward with LS_ERR_UNSUPPORTED.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status
ls_params_set_slices(ls_params *params, int slices);

/*
 * Lays out and fills everything. With a group the gradients live in memory
 * shared by the node's ranks (collective; LS_ERR_MISMATCH names the first
 * parameter that is not the same on all); with NULL in private memory (local).
 * The values depend on (seed, index of the parameter, index of the
 * element) only, so equal seeds give equal models on any number of ranks.
 */
LS_API LS_MUST_CHECK ls_status ls_params_allocate(ls_params *params,
                                                  ls_group *group,
                                                  uint64_t seed);

/* The parameters in order of definition, and their names. */
LS_API size_t ls_params_count(const ls_params *params);
LS_API ls_tensor *ls_params_get(ls_params *params, size_t index);
LS_API const char *ls_params_name(const ls_params *params, size_t index);
LS_API bool ls_params_is_trainable(const ls_params *params, size_t index);

/* The buffers in order of definition, and their names. */
LS_API size_t ls_params_buffer_count(const ls_params *params);
LS_API ls_tensor *ls_params_buffer(ls_params *params, size_t index);
LS_API const char *ls_params_buffer_name(const ls_params *params, size_t index);

/* Elements of all parameters, trained or not. */
LS_API int64_t ls_params_numel(const ls_params *params);

/*
 * The flat buffers of the trained parameters: *count elements, a multiple of
 * 16, each parameter padded with zeros to 64 bytes. Parameter i is at
 * ls_params_offset(params, i) in both (SIZE_MAX if it is not trained). Owned by
 * the set. count may be NULL. The buffer of weights is NULL while some weights
 * are in the program's memory (ls_params_adopt), or divided over nodes.
 */
LS_API float *ls_params_flat(ls_params *params, size_t *count);
LS_API float *ls_params_flat_grad(ls_params *params, size_t *count);
LS_API size_t ls_params_offset(const ls_params *params, size_t index);

/*
 * For an ls_ddp with LS_DDP_FSDP over several nodes, which divides all weights:
 * operations gather what they need. Mapping a parameter is LS_ERR_STATE unless
 * ls_params_fetch has brought its values to this node, for reading. Pointers
 * are valid until ls_params_release. A later access to weights of other nodes
 * ends the process with SIGSEGV; stderr, or the report of `lockstep run`, names
 * the parameter. Calls nest. If a release is missing, the next optimizer's step
 * is LS_ERR_STATE. Local: other ranks answer while they compute or wait. Both
 * functions do nothing if weights are not divided.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status
ls_params_fetch(ls_params *params, size_t index);
LS_API LS_EXPERIMENTAL void ls_params_release(ls_params *params, size_t index);

/*
 * The gradient of a parameter of some set (a view of the flat buffer); NULL for
 * any other tensor, and for a parameter that is not trained.
 */
LS_API ls_tensor *ls_grad(ls_tensor *param);

/*
 * Forgets all gradients: the next backward overwrites instead of adding. This
 * costs nothing; gradients that no backward then writes read as zero after
 * ls_params_finish_grad.
 */
LS_API void ls_params_zero_grad(ls_params *params);

/* Writes zeros to every gradient that no backward wrote since zero_grad. */
LS_API void ls_params_finish_grad(ls_params *params);

/*
 * Call it after writing to parameters: matrix products in a half type round a
 * parameter once and reuse the result until it changes. Optimizers, ls_ddp_new
 * and functions that load files do it themselves.
 */
LS_API void ls_params_changed(ls_params *params);

/*
 * Called during ls_backward the moment a parameter's gradient is final: after
 * its last use in the tape, and once for each backward that reaches it. Index
 * is its place in the set. A status other than LS_OK ends the backward.
 */
typedef ls_status (*ls_grad_ready_fn)(void *context, size_t index);
LS_API void ls_params_on_grad_ready(ls_params *params, ls_grad_ready_fn fn,
                                    void *context);

/* ---- files --------------------------------------------------------------- */

/*
 * Writes all parameters and buffers under their names, in this order, as
 * ls_safetensors_save: a model, without the state of its optimizer
 * (checkpoint.h). Local: of the ranks that train a model together one calls it,
 * and its buffers are written.
 *
 *     check(ls_params_save(params, "model.safetensors", NULL));
 */
LS_API LS_MUST_CHECK ls_status ls_params_save(const ls_params *params,
                                              const char *path,
                                              const char *const *metadata);

/*
 * Fills all parameters and buffers of an allocated set from such a file. The
 * file must have each of them with the same shape and type, and no other
 * tensor. The error names the first that is missing, differs or is surplus, and
 * nothing is written then. Local: each rank calls it, or rank 0 before
 * ls_ddp_new, which copies to the others. Collective if the weights are divided
 * over nodes (ls_params_fetch): each rank reads its part of the file, and one
 * that fails has its old part.
 */
LS_API LS_MUST_CHECK ls_status ls_params_load(ls_params *params,
                                              const char *path);

#ifdef __cplusplus
}
#endif

#endif

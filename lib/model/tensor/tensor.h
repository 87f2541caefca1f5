/*
 * Inside a tensor.
 *
 * A tensor is a shape over a storage; views are further tensors over the same
 * one. Both come either from the accounting allocator or from a pool.
 *
 * Layouts. Convolutions prefer images in another order than (N, C, H, W),
 * and converting at every step would cost as much as it gains. A storage may
 * therefore hold a whole f32 (N, C, H, W) tensor in a layout of
 * compute/dense.h. The rule that keeps this invisible:
 *
 *   - a storage that is not PLAIN belongs to exactly one tensor, which covers
 *     all of it: code that makes a view or hands out memory (ls_tensor_map,
 *     lsi_tensor_alias, ls_tensor_copy, ...) makes it PLAIN first, in place;
 *   - shape and strides are those of the plain tensor, always;
 *   - only operations that say so look at the layout, by lsi_tensor_layout
 *     and lsi_tensor_raw.
 *
 * So a convolution's result stays as the convolution left it while only
 * convolutions, pooling and element-wise operations use it, and turns plain
 * as soon as other code looks.
 */
#ifndef LS_MODEL_TENSOR_TENSOR_H
#define LS_MODEL_TENSOR_TENSOR_H

#include <stdatomic.h>

#include "array/compute/dense.h"
#include "base/memory.h"
#include "base/partition.h"
#include "lockstep/profile.h"
#include "lockstep/tensor.h"
#include "model/tensor/pool.h"

typedef enum lsi_storage_kind {
    LSI_STORAGE_OWNED,   /* by lsi_alloc */
    LSI_STORAGE_WRAPPED, /* the caller's memory */
    LSI_STORAGE_POOLED   /* from a pool, which gets it back */
} lsi_storage_kind;

/*
 * Of memory whose values may be elsewhere, or not computed yet. `provide` makes
 * them be there before somebody reads or writes them: the forward pass of a
 * tape, or anybody else.
 */
typedef struct lsi_supply {
    ls_status (*provide)(struct lsi_supply *supply, bool in_pass);
    /* LS_ERR_STATE if the values may go again while a program has an address.
     */
    ls_status (*check_stay)(const struct lsi_supply *supply,
                            const char *function);
    /* The elements of the memory that are always there. */
    lsi_range (*kept)(const struct lsi_supply *supply);
} lsi_supply;

typedef struct lsi_storage {
    atomic_int refs;
    lsi_storage_kind kind;
    lsi_layout layout;
    ls_memory_tag tag;
    void *data;
    size_t bytes;
    lsi_pool *pool; /* or NULL */
    /* Gives wrapped memory back to its owner; or NULL. */
    void (*release)(void *context);
    void *context;
    lsi_supply *supply; /* NULL: the values are always there */
} lsi_storage;

struct lsi_param;

struct ls_tensor {
    atomic_int refs;
    ls_dtype dtype;
    int ndim;
    int64_t shape[LS_MAX_DIMS];
    int64_t strides[LS_MAX_DIMS]; /* in elements */
    int64_t count;
    size_t offset;        /* offset of the first element, in bytes */
    lsi_storage *storage; /* NULL: a parameter that is not allocated yet */
    lsi_pool *pool;       /* where this struct came from, or NULL */

    /* For autograd only (0 at first). */
    struct ls_tape *tape; /* that knows the tensor, or NULL */
    int slot;             /* number of its slot on that tape */
    struct lsi_param *param;
};

/* ---- making tensors (storage.c, tensor.c) -------------------------------- */

typedef struct lsi_tensor_spec {
    ls_dtype dtype;
    int ndim;
    const int64_t *shape;
    lsi_layout layout; /* PLAIN unless f32 and four dimensions */
    lsi_pool *pool;    /* NULL: from the allocator, under `tag` */
    ls_memory_tag tag;
} lsi_tensor_spec;

/* A dense tensor with undefined contents. *out is the caller's. */
ls_status lsi_tensor_make(ls_tensor **out, const lsi_tensor_spec *spec);

/* A tensor with a shape and no storage, for lsi_tensor_set_memory. */
ls_status lsi_tensor_make_empty(ls_tensor **out, ls_dtype dtype, int ndim,
                                const int64_t *shape);

/* Gives a tensor of lsi_tensor_make_empty memory that outlives it. */
ls_status lsi_tensor_set_memory(ls_tensor *tensor, void *data);

ls_status lsi_storage_new(lsi_storage **out, lsi_pool *pool, size_t bytes,
                          ls_memory_tag tag);
ls_status lsi_storage_wrap(lsi_storage **out, void *data, size_t bytes);
lsi_storage *lsi_storage_retain(lsi_storage *storage);
void lsi_storage_release(lsi_storage *storage);
/* Exchanges the storage's memory for fresh memory of the same size; *old has
 * to be given to lsi_storage_drop. */
ls_status lsi_storage_renew(lsi_storage *storage, void **old);
void lsi_storage_drop(const lsi_storage *storage, void *data);

/* ---- shapes (shape.c) ---------------------------------------------------- */

/* Whether a tensor may have this type; and whether such a type is integer. */
bool lsi_dtype_is_of_tensors(ls_dtype dtype);
static inline bool lsi_dtype_is_integer(ls_dtype dtype)
{
    return dtype == LS_U8 || dtype == LS_I32 || dtype == LS_I64;
}

/*
 * Checks 0 <= ndim <= LS_MAX_DIMS, extents >= 0, and that the bytes fit an
 * address space. *count gets the elements.
 */
ls_status lsi_shape_check(ls_dtype dtype, int ndim, const int64_t *shape,
                          int64_t *count);
void lsi_shape_strides(int ndim, const int64_t *shape, int64_t *strides);
bool lsi_shape_equal(const ls_tensor *a, const ls_tensor *b);

/*
 * LS_ERR_ARGUMENT if a stride is below 0, or they reach further than an address
 * space.
 */
ls_status lsi_strides_check(const ls_tensor *tensor);

/* Bytes from the first element to one past the last; 0 if there are none. */
size_t lsi_tensor_extent(const ls_tensor *tensor);

/* "(32, 3, 32, 32)", for messages. */
typedef struct lsi_shape_text {
    char text[LS_MAX_DIMS * 22 + 3];
} lsi_shape_text;
lsi_shape_text lsi_shape_format(int ndim, const int64_t *shape);
lsi_shape_text lsi_shape_of(const ls_tensor *tensor);

/* ---- tensors that are NULL (missing.c) ----------------------------------- */

/* As LS_NEED: the error is that of the thread's failed tape if there is one. */
#define LS_NEED_TENSOR(tensor)                                                 \
    do {                                                                       \
        if ((tensor) == NULL)                                                  \
            return lsi_tensor_missing(__func__, #tensor);                      \
    } while (0)
ls_status lsi_tensor_missing(const char *function, const char *argument);

/* A tape of this thread has failed; its error has been cleared. */
void lsi_tensor_blame(const void *tape, ls_status status, const char *message);
void lsi_tensor_forgive(const void *tape);

/* ---- views (view.c) ------------------------------------------------------ */

/* Another tensor over the same elements. */
ls_status lsi_tensor_alias(const ls_tensor *tensor, lsi_pool *pool,
                           ls_tensor **out);

/* Turn an alias into a view; see the functions of lockstep/tensor.h. */
ls_status lsi_view_reshape(ls_tensor *alias, int ndim, const int64_t *shape);
ls_status lsi_view_narrow(ls_tensor *alias, int dim, int64_t begin,
                          int64_t end);
ls_status lsi_view_slice(ls_tensor *alias, int dim, int64_t begin, int64_t end,
                         int64_t step);
ls_status lsi_view_transpose(ls_tensor *alias, int a, int b);

/* ---- memory (layout.c) --------------------------------------------------- */

static inline lsi_layout lsi_tensor_layout(const ls_tensor *tensor)
{
    return tensor->storage->layout;
}

/* The first byte, in any layout. */
static inline void *lsi_tensor_raw(const ls_tensor *tensor)
{
    return (char *)tensor->storage->data + tensor->offset;
}

/*
 * Operations that this thread has finished. Memory that was made ready for one
 * may be gone once the next has begun.
 */
uint64_t lsi_tensor_uses(void);
void lsi_tensor_used(void); /* one more */

/* LS_ERR_STATE, as below, and nothing else. */
ls_status lsi_tensor_check_allocated(const ls_tensor *tensor,
                                     const char *function);

/*
 * To be called before the memory is read or written: LS_ERR_STATE, in the name
 * of `function`, for a parameter that is not allocated yet. Values that are not
 * there yet are there afterwards.
 */
ls_status lsi_tensor_check_memory(const ls_tensor *tensor,
                                  const char *function);

/* As lsi_tensor_check_memory, for an operation of a tape. */
ls_status lsi_tensor_check_input(const ls_tensor *tensor, const char *function);

/* As lsi_tensor_check_memory, for code that gives an address to a program. */
ls_status lsi_tensor_check_address(const ls_tensor *tensor,
                                   const char *function);

/*
 * The elements of the tensor's storage that are always there: those that this
 * process writes when a file is loaded. All, unless they are divided.
 */
lsi_range lsi_tensor_kept(const ls_tensor *tensor);

/* Makes the storage PLAIN. */
ls_status lsi_tensor_plain(const ls_tensor *tensor);

/* Makes the tensor's memory be in `layout`; dense f32 (N, C, H, W) only. */
ls_status lsi_tensor_set_layout(ls_tensor *tensor, lsi_layout layout);

#endif

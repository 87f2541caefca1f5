/*
 * Inside the tape.
 *
 * A *node* is one recorded operation; its arrays lie in the tape's arena. A
 * *slot* is one tensor that has a gradient on this tape: the output of a node,
 * or a watched tensor. Tensors point back to their slot, so that finding it
 * costs nothing. Parameters have no slot; they point to their lsi_param.
 *
 * References until the reset: `owned` has every tensor handed to the user;
 * slots and nodes have the tensors that they name; `temps` has tensors that an
 * operation or a backward function needs only while it runs. All memory comes
 * from the tape's pool. In evaluation, a layer's tensors are released when the
 * layer ends (lsi_tape_keep_only).
 */
#ifndef LS_MODEL_AUTOGRAD_TAPE_H
#define LS_MODEL_AUTOGRAD_TAPE_H

#include "base/rng.h"
#include "lockstep/autograd.h"
#include "model/autograd/arena.h"
#include "model/autograd/slices.h"
#include "model/tensor/tensor.h"

typedef struct lsi_slot {
    ls_tensor *tensor;
    ls_tensor *grad; /* made when first asked for */
    int node;        /* node that computed the tensor; -1 for a watched leaf */
    bool watched;    /* the user wants the gradient: keep it */
    bool live;       /* the loss depends on it */
} lsi_slot;

struct ls_node {
    const ls_function *function;
    void *state;
    ls_tensor **inputs, **outputs, **saved;
    size_t n_inputs, n_outputs, n_saved;
    bool live;     /* backward will visit it */
    uint32_t path; /* where it was recorded (observe/memory_record.h) */
    /*
     * For a collective backward that will not run: enters the collective in
     * this rank's place without taking part. `status` and the last recorded
     * error say why. NULL for other nodes.
     */
    void (*abandon)(const ls_node *node, ls_status status);
};

typedef enum lsi_tape_phase {
    LSI_TAPE_RECORDING,
    LSI_TAPE_WALKING, /* in ls_backward */
    LSI_TAPE_WALKED   /* until the reset */
} lsi_tape_phase;

/* A growing array of pointers to tensors, each holding a reference. */
typedef struct lsi_tensor_list {
    ls_tensor **items;
    int count, capacity;
} lsi_tensor_list;

struct ls_tape {
    lsi_pool *pool;
    lsi_arena arena;
    ls_node *nodes;
    int n_nodes, nodes_capacity;
    lsi_slot *slots;
    int n_slots, slots_capacity;
    lsi_tensor_list owned, temps;
    bool holds_temps;
    lsi_tape_phase phase;
    bool training;

    ls_tape_samples samples; /* struct_size 0: not known */
    const ls_tensor *loss;   /* the last cross entropy of samples, or NULL */
    double loss_sums[LSI_MAX_SLICES]; /* over its rows, of each slice */

    ls_dtype autocast;       /* LS_F32: products in the types they are given */
    ls_tensor *rounded_from; /* the last operand that was rounded, or NULL */
    ls_tensor *rounded;      /* the rounded copy; both until the reset */

    lsi_rng_key random_key;
    uint64_t random_step;
    uint64_t random_ops;  /* random operations since the reset */
    bool random_was_used; /* a random operation ran since the step was set */

    /* Tape on which calls of ls_recompute run; made when first needed. */
    ls_tape *inner;
    const ls_tape *outer; /* the tape whose `inner` this is, or NULL */
    bool again;           /* an inner tape that computes again */

    uint64_t op_began; /* ticks at the start of the current operation; 0: not
                          begun, or not traced */

    ls_status status; /* sticky */
    char message[512];
};

/* Whether tensors of this type can have a gradient. */
static inline bool lsi_dtype_is_real(ls_dtype dtype)
{
    return dtype == LS_F32 || dtype == LS_BF16 || dtype == LS_F16;
}

/* The tensor's slot on this tape, or NULL. */
static inline lsi_slot *lsi_tape_slot(const ls_tape *tape,
                                      const ls_tensor *tensor)
{
    return tensor->tape == tape ? &tape->slots[tensor->slot] : NULL;
}

/* Whether ls_tape_set_samples holds. */
static inline bool lsi_tape_knows_samples(const ls_tape *tape)
{
    return tape->samples.struct_size != 0;
}

/*
 * Whether the rows of a batch, its first dimension, are those of the tape's
 * samples; *each of them then make up a sample. Else the tape fails.
 */
bool lsi_rows_of_samples(ls_tape *tape, const ls_function *function,
                         int64_t rows, size_t *each);

/*
 * Adds a loss, the mean over items of this `weight`, to the sums of slices. A
 * loss that is not a cross entropy of the tape's samples belongs to slice 0.
 */
ls_status lsi_tape_add_loss(const ls_tape *tape, const ls_tensor *loss,
                            double weight, double *sums);

/* Whether backward wants the gradient of this tensor (NULL: no). */
bool lsi_tape_needs(const ls_tape *tape, const ls_tensor *tensor);

/* Whether a function that returns a tensor has a tape; else records why not. */
bool lsi_tape_given(const ls_tape *tape, const char *function);

/* LS_ERR_STATE if backward has run since the last reset. */
ls_status lsi_tape_check_recording(const ls_tape *tape, const char *function);

/*
 * Whether a function that returns a tensor has a tape and this argument; else
 * records the error.
 */
bool lsi_tape_has(ls_tape *tape, const void *argument, const char *function,
                  const char *name);

/* Makes a failure that has been recorded by lsi_fail stick; returns NULL. */
ls_tensor *lsi_tape_stop(ls_tape *tape, ls_status status);

/*
 * Ends a tape on which backward will not run, or not go on. Nodes with a
 * collective backward report this to the ranks that run theirs. `status` and
 * the last recorded error, which stays, say why. Does nothing if the tape has
 * been walked. Collective if such nodes exist.
 */
void lsi_tape_abandon(ls_tape *tape, ls_status status);

/*
 * Forward passes of this thread's outer tapes: one begins after each reset, and
 * at lsi_tape_begin_pass, for a model that reads a long input in pieces.
 */
uint64_t lsi_tape_passes(void);
void lsi_tape_begin_pass(void);

/* Passes a reference to the tape, which releases it at the reset. */
ls_status lsi_tape_own(ls_tape *tape, ls_tensor *tensor);

/*
 * Releases the memory of an output now: it is not read again, and no backward
 * function has saved it. The output keeps its shape, its place in the graph and
 * its gradient. Accepts NULLs.
 */
void lsi_tape_drop_values(ls_tensor *tensor);

/*
 * For evaluation layer by layer. lsi_tape_mark returns a mark; later
 * lsi_tape_keep_only releases all outputs since the mark except `result`. If
 * the result has a gradient, backward may need everything, and nothing is
 * released. Accepts a NULL result, after a failure.
 */
int lsi_tape_mark(const ls_tape *tape);
void lsi_tape_keep_only(ls_tape *tape, int mark, const ls_tensor *result);

/* A tensor with memory of the tape's pool. *out is the caller's. */
ls_status lsi_tape_make(const ls_tape *tape, ls_dtype dtype, int ndim,
                        const int64_t *shape, lsi_layout layout,
                        ls_tensor **out);

/* As lsi_tape_own, until the operation or backward function has ended. */
ls_status lsi_tape_own_temp(ls_tape *tape, ls_tensor *tensor);
void lsi_tape_free_temps(ls_tape *tape);

/* A temporary tensor: until the operation or backward function has ended. */
ls_status lsi_tape_temp(ls_tape *tape, ls_dtype dtype, int ndim,
                        const int64_t *shape, lsi_layout layout,
                        ls_tensor **out);

/*
 * For an operation that records itself before it computes: true keeps temps,
 * false frees them.
 */
void lsi_tape_hold_temps(ls_tape *tape, bool hold);

/* Forgets the operand that was rounded last (autocast.c). */
void lsi_tape_forget_rounded(ls_tape *tape);

/*
 * The part of ls_backward after the loss, for an inner tape whose slots have
 * the initial gradients. Parameters are not announced, since their last use is
 * that of the outer tape's node.
 */
ls_status lsi_tape_walk_inner(ls_tape *inner, int last);

/* Gives a tensor a slot. */
ls_status lsi_tape_add_slot(ls_tape *tape, ls_tensor *tensor, int node);

/* Releases everything that a node holds. */
void lsi_tape_release_node(ls_node *node);

/*
 * Grows *array (of `size`-byte elements) to at least `needed` elements, and
 * keeps its contents. The capacity is kept over resets.
 */
ls_status lsi_tape_grow(void *array, int *capacity, int needed, size_t size);

#endif

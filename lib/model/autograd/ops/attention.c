/*
 * Attention: o = softmax(scale q k^T) v, by heads. Forward saves L for backward
 * (see lockstep/attention.h), and with the naive method also the probabilities.
 */
#include "lockstep/attention.h"
#include "base/error.h"
#include "base/structs.h"
#include "model/autograd/ops/ops.h"

enum { Q, K, V, INPUTS };
enum { SAVED_O = INPUTS, SAVED_ROWS, SAVED };

typedef struct attention_state {
    ls_attention_shape shape;
    ls_attention_method method;
} attention_state;

/* ---- backward ------------------------------------------------------------ */

/* The target of an input's gradient; scratch memory if it is not needed. */
static ls_status open_target(ls_tape *tape, ls_node *node, int index,
                             lsi_target *target, void **memory)
{
    LS_TRY(lsi_target_open(tape, node, index, LSI_LAYOUT_PLAIN, target));
    if (target->grad != NULL) {
        *memory = lsi_tensor_raw(target->out);
        return LS_OK;
    }
    const ls_tensor *input = ls_node_saved(node, index);
    *memory = ls_tape_scratch(tape, (size_t)input->count *
                                        ls_dtype_size(input->dtype));
    return *memory == NULL ? ls_tape_status(tape) : LS_OK;
}

static ls_status attention_backward(ls_tape *tape, ls_node *node)
{
    const attention_state *s = ls_node_state(node);
    const ls_tensor *dout = ls_node_grad_output(tape, node, 0);
    lsi_target targets[INPUTS];
    void *gradients[INPUTS], *saved[SAVED];
    if (dout == NULL)
        return ls_tape_status(tape);
    for (int i = 0; i < INPUTS; i++)
        LS_TRY(open_target(tape, node, i, &targets[i], &gradients[i]));
    for (int i = 0; i < SAVED; i++)
        saved[i] = lsi_tensor_raw(ls_node_saved(node, i));
    LS_TRY(ls_attention_backward(&s->shape, s->method, gradients[Q],
                                 gradients[K], gradients[V],
                                 lsi_tensor_raw(dout), saved[Q], saved[K],
                                 saved[V], saved[SAVED_O], saved[SAVED_ROWS]));
    for (int i = 0; i < INPUTS; i++)
        LS_TRY(lsi_target_close(&targets[i]));
    return LS_OK;
}

const ls_function lsi_op_attention = {"attention", attention_backward,
                                      sizeof(attention_state)};

/* ---- forward ------------------------------------------------------------- */

static bool check(ls_tape *tape, ls_tensor *const *in, bool rows_outside)
{
    const ls_tensor *q = in[Q], *k = in[K], *v = in[V];
    if (q->dtype != LS_F32 && q->dtype != LS_BF16)
        return ls_tape_fail(tape, LS_ERR_DTYPE,
                            "attention: q is %s; it must be f32 or bf16",
                            ls_dtype_name(q->dtype)) != NULL;
    const char *wanted = rows_outside ? "(batch, rows, heads, d) for q and k"
                                      : "(batch, heads, rows, d) for q and k";
    if (!lsi_op_check_dtype(tape, &lsi_op_attention, k, q->dtype) ||
        !lsi_op_check_dtype(tape, &lsi_op_attention, v, q->dtype) ||
        !lsi_op_check_ndim(tape, &lsi_op_attention, q, 4, wanted) ||
        !lsi_op_check_ndim(tape, &lsi_op_attention, k, 4, wanted) ||
        !lsi_op_check_equal(tape, &lsi_op_attention, k, v))
        return false;
    if (q->shape[0] != k->shape[0] || q->shape[3] != k->shape[3])
        return ls_tape_fail(tape, LS_ERR_SHAPE,
                            "attention: q has shape %s and k has shape %s; "
                            "expected shape %s, with the same batch and the "
                            "same d",
                            lsi_shape_of(q).text, lsi_shape_of(k).text,
                            wanted) != NULL;
    return true;
}

static ls_attention_strides strides_of(const ls_tensor *tensor,
                                       bool rows_outside)
{
    const int64_t *n = tensor->shape;
    const int64_t inner = n[2] * n[3];
    if (rows_outside)
        return (ls_attention_strides){n[1] * inner, n[3], inner};
    return (ls_attention_strides){n[1] * inner, inner, n[3]};
}

static ls_attention_shape shape_of(const ls_tensor *q, const ls_tensor *k,
                                   const ls_attention_options *o)
{
    const int head = o->rows_outside ? 2 : 1, row = 3 - head;
    return (ls_attention_shape){.batch = q->shape[0],
                                .heads = q->shape[head],
                                .kv_heads = k->shape[head],
                                .queries = q->shape[row],
                                .keys = k->shape[row],
                                .d = q->shape[3],
                                .dtype = q->dtype,
                                .causal = o->causal,
                                .scale = o->scale,
                                .q_strides = strides_of(q, o->rows_outside),
                                .kv_strides = strides_of(k, o->rows_outside),
                                .o_strides = strides_of(q, o->rows_outside)};
}

/* The tensor that forward fills for backward. */
static ls_tensor *saved_rows(ls_tape *tape, const attention_state *s)
{
    size_t bytes;
    const ls_status status =
        ls_attention_saved_bytes(&s->shape, s->method, &bytes);
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    const int64_t n = (int64_t)(bytes / sizeof(float));
    return lsi_op_temp(tape, LS_F32, 1, &n);
}

/* Attention in the types of its inputs. */
static ls_tensor *attend(ls_tape *tape, ls_tensor *const *in,
                         const ls_attention_options *o)
{
    if (!check(tape, in, o->rows_outside))
        return NULL;
    const attention_state s = {shape_of(in[Q], in[K], o), o->method};
    ls_tensor *saved[SAVED] = {lsi_op_plain(tape, in[Q]),
                               lsi_op_plain(tape, in[K]),
                               lsi_op_plain(tape, in[V])};
    saved[SAVED_ROWS] = saved_rows(tape, &s);
    ls_tensor *out = ls_tape_output(tape, in[Q]->dtype, 4, in[Q]->shape);
    saved[SAVED_O] = out;
    if (out == NULL)
        return NULL;
    const ls_status status = ls_attention_forward(
        &s.shape, s.method, lsi_tensor_raw(out),
        lsi_op_floats(saved[SAVED_ROWS]), lsi_tensor_raw(saved[Q]),
        lsi_tensor_raw(saved[K]), lsi_tensor_raw(saved[V]));
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    return ls_tape_record(tape, &lsi_op_attention, &s, in, INPUTS, &out, 1,
                          saved, SAVED);
}

/*
 * Attention in mixed precision. Kernels for f16 do not exist: f16 numbers, f32
 * arithmetic.
 */
static ls_tensor *attend_rounded(ls_tape *tape, ls_tensor **in,
                                 const ls_attention_options *o)
{
    const ls_dtype half = ls_tape_autocast(tape);
    for (int i = 0; i < INPUTS; i++) {
        if (in[i]->dtype != half)
            in[i] = ls_cast(tape, in[i], half);
        if (half == LS_F16)
            in[i] = ls_cast(tape, in[i], LS_F32);
        if (in[i] == NULL)
            return NULL;
    }
    ls_tensor *out = attend(tape, in, o);
    return half == LS_F16 ? ls_cast(tape, out, half) : out;
}

ls_tensor *ls_attention(ls_tape *tape, ls_tensor *q, ls_tensor *k, ls_tensor *v,
                        const ls_attention_options *options)
{
    static const ls_attention_options usual = LS_ATTENTION_OPTIONS_INIT;
    ls_attention_options o;
    ls_tensor *in[] = {q, k, v};
    if (!lsi_op_begin(tape, &lsi_op_attention, in, INPUTS))
        return NULL;
    const ls_status status =
        LSI_STRUCT_READ(&o, options != NULL ? options : &usual,
                        ls_attention_options, rows_outside);
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    return lsi_tape_is_mixed(tape) ? attend_rounded(tape, in, &o)
                                   : attend(tape, in, &o);
}

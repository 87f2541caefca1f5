/*
 * y (M, N) = a (M, K) b (K, N), as multiplied all of one type.
 *
 *     da (M, K) = dy b^T        db (K, N) = a^T dy
 *
 * Transposed matrices are multiplied as they lie; only views with gaps in both
 * directions are copied first.
 */
#include "autograd/ops/ops.h"
#include "base/error.h"

/* A matrix in memory: its transpose may be what is stored. */
typedef struct matrix {
    const void *data;
    bool transposed;
    int64_t ld;
} matrix;

/* Leading dimensions must be at least the width, even if there is one row. */
static matrix matrix_of(const ls_tensor *t)
{
    const int64_t rows = t->shape[0], cols = t->shape[1];
    const void *data = lsi_tensor_raw(t);
    if (ls_tensor_is_contiguous(t))
        return (matrix){data, false, cols > 0 ? cols : 1};
    if (t->strides[1] == 1 && t->strides[0] >= cols)
        return (matrix){data, false, t->strides[0]};
    return (matrix){data, true, t->strides[1] >= rows ? t->strides[1] : rows};
}

/* The tensor, or a copy if matrix_of cannot describe it. */
static ls_tensor *as_matrix(ls_tape *tape, ls_tensor *t)
{
    const int64_t rows = t->shape[0], cols = t->shape[1];
    const bool by_rows = t->strides[1] == 1 && t->strides[0] >= cols;
    const bool by_columns = t->strides[0] == 1 && t->strides[1] >= rows;
    return by_rows || by_columns ? t : lsi_op_plain(tape, t);
}

/* A matrix to multiply, or its transpose. */
typedef struct factor {
    const ls_tensor *tensor;
    bool flip;
} factor;

/* c = a b; c is dense. */
static ls_status multiply(ls_tape *tape, const ls_tensor *c, bool accumulate,
                          factor a, factor b)
{
    const matrix ma = matrix_of(a.tensor), mb = matrix_of(b.tensor);
    const lsi_gemm_shape shape = {
        .m = c->shape[0],
        .n = c->shape[1],
        .k = a.tensor->shape[a.flip ? 0 : 1],
        .lda = ma.ld,
        .ldb = mb.ld,
        .ldc = c->shape[1] > 0 ? c->shape[1] : 1,
        .a_transposed = ma.transposed != a.flip,
        .b_transposed = mb.transposed != b.flip,
        .accumulate = accumulate,
        .ab_dtype = a.tensor->dtype,
        .c_dtype = c->dtype,
    };
    return lsi_op_gemm(tape, &shape, lsi_tensor_raw(c), ma.data, mb.data, NULL);
}

static ls_status matmul_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *a = ls_node_saved(node, 0), *b = ls_node_saved(node, 1);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    bool accumulate = false;
    const ls_tensor *da = ls_node_grad_input(tape, node, 0, &accumulate);
    if (dy != NULL && da != NULL)
        LS_TRY(multiply(tape, da, accumulate, (factor){dy, false},
                        (factor){b, true}));
    const ls_tensor *db = ls_node_grad_input(tape, node, 1, &accumulate);
    if (dy != NULL && db != NULL)
        LS_TRY(multiply(tape, db, accumulate, (factor){a, true},
                        (factor){dy, false}));
    return ls_tape_status(tape);
}

const ls_function lsi_op_matmul = {"matmul", matmul_backward, 0};

static bool check(ls_tape *tape, const ls_tensor *a, const ls_tensor *b)
{
    if (!lsi_dtype_is_real(a->dtype)) {
        ls_tape_fail(tape, LS_ERR_DTYPE,
                     "matmul: a is %s; it must be f32, bf16 or f16",
                     ls_dtype_name(a->dtype));
        return false;
    }
    if (!lsi_op_check_dtype(tape, &lsi_op_matmul, b, a->dtype))
        return false;
    if (a->ndim == 2 && b->ndim == 2 && a->shape[1] == b->shape[0])
        return true;
    ls_tape_fail(tape, LS_ERR_SHAPE,
                 "matmul: shapes %s and %s should be (M, K) and (K, N)",
                 lsi_shape_of(a).text, lsi_shape_of(b).text);
    return false;
}

ls_tensor *ls_matmul(ls_tape *tape, ls_tensor *a, ls_tensor *b)
{
    ls_tensor *const inputs[] = {a, b};
    if (!lsi_op_begin(tape, &lsi_op_matmul, inputs, 2))
        return NULL;
    ls_tensor *const operands[] = {lsi_op_operand(tape, a),
                                   lsi_op_operand(tape, b)};
    if (ls_tape_status(tape) != LS_OK || !check(tape, operands[0], operands[1]))
        return NULL;
    ls_tensor *const saved[] = {as_matrix(tape, operands[0]),
                                as_matrix(tape, operands[1])};
    if (saved[0] == NULL || saved[1] == NULL)
        return NULL;
    ls_tensor *y = ls_tape_output(tape, saved[0]->dtype, 2,
                                  (const int64_t[]){a->shape[0], b->shape[1]});
    if (y == NULL)
        return NULL;
    const ls_status status = multiply(tape, y, false, (factor){saved[0], false},
                                      (factor){saved[1], false});
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    return ls_tape_record(tape, &lsi_op_matmul, NULL, inputs, 2, &y, 1, saved,
                          2);
}

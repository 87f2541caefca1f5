/*
 * y (..., M, N) = a (..., M, K) b (..., K, N), all of one type when multiplied.
 * The dimensions before the matrices broadcast; the gradient of a repeated
 * matrix is the sum over its repetitions.
 *
 *     da (..., M, K) = dy b^T        db (..., K, N) = a^T dy
 *
 * Transposed matrices are multiplied as they are stored; only views with gaps
 * in both directions are copied first.
 */
#include "base/error.h"
#include "model/autograd/layer_span.h"
#include "model/autograd/ops/ops.h"

/* ---- matrices in memory -------------------------------------------------- */

static int64_t rows_of(const ls_tensor *t)
{
    return t->shape[t->ndim - 2];
}

static int64_t cols_of(const ls_tensor *t)
{
    return t->shape[t->ndim - 1];
}

/* One of the matrices of a tensor: its transpose may be what is stored. */
typedef struct matrix {
    bool transposed;
    int64_t ld;
} matrix;

/*
 * Whether strides describe the matrix. A leading dimension is at least the
 * width, and is ignored for a single row.
 */
static bool describe(const ls_tensor *t, matrix *out)
{
    const int64_t rows = rows_of(t), cols = cols_of(t);
    const int64_t down = t->strides[t->ndim - 2];
    const int64_t across = t->strides[t->ndim - 1];
    if ((across == 1 || cols <= 1) && (down >= cols || rows <= 1))
        *out = (matrix){false, rows > 1 ? down : cols};
    else if ((down == 1 || rows <= 1) && (across >= rows || cols <= 1))
        *out = (matrix){true, cols > 1 ? across : rows};
    else
        return false;
    out->ld += out->ld == 0;
    return true;
}

/* The tensor, or a copy if strides cannot describe its matrices. */
static ls_tensor *as_matrices(ls_tape *tape, ls_tensor *t)
{
    matrix unused;
    const ls_status status = lsi_tensor_plain(t);
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    return describe(t, &unused) ? t : lsi_op_plain(tape, t);
}

/* ---- products ------------------------------------------------------------ */

/* Matrices to multiply, or their transposes. */
typedef struct factor {
    const ls_tensor *tensor;
    bool flip;
} factor;

/* Number of dimensions before the matrices, and the extent of one of them. */
static int batch_dims(const ls_tensor *t)
{
    return t->ndim - 2;
}

static int64_t batch_extent(const ls_tensor *t, int dims, int d)
{
    const int own = d - (dims - batch_dims(t));
    return own >= 0 ? t->shape[own] : 1;
}

/* The stride from matrix to matrix; 0 for a single matrix. */
static int64_t batch_stride(const ls_tensor *t, int dims, int d)
{
    const int own = d - (dims - batch_dims(t));
    return batch_extent(t, dims, d) > 1 ? t->strides[own] : 0;
}

static lsi_gemm_batch batch_of(const ls_tensor *c, const ls_tensor *a,
                               const ls_tensor *b)
{
    lsi_gemm_batch batch = {0};
    int dims = batch_dims(c);
    dims = dims > batch_dims(a) ? dims : batch_dims(a);
    dims = dims > batch_dims(b) ? dims : batch_dims(b);
    batch.ndim = dims;
    for (int d = 0; d < dims; d++) {
        const int64_t of_c = batch_extent(c, dims, d);
        const int64_t of_a = batch_extent(a, dims, d);
        const int64_t of_b = batch_extent(b, dims, d);
        const int64_t ab = of_a == 1 ? of_b : of_a;
        batch.extent[d] = ab == 1 ? of_c : ab;
        batch.a[d] = batch_stride(a, dims, d);
        batch.b[d] = batch_stride(b, dims, d);
        batch.c[d] = batch_stride(c, dims, d);
    }
    return batch;
}

/* c = a b; c is dense. */
static ls_status multiply(const ls_tensor *c, bool accumulate, factor a,
                          factor b)
{
    matrix ma = {0}, mb = {0};
    (void)describe(a.tensor, &ma); /* true after as_matrices */
    (void)describe(b.tensor, &mb);
    const lsi_gemm_shape shape = {
        .m = rows_of(c),
        .n = cols_of(c),
        .k = a.flip ? rows_of(a.tensor) : cols_of(a.tensor),
        .lda = ma.ld,
        .ldb = mb.ld,
        .ldc = cols_of(c) > 0 ? cols_of(c) : 1,
        .a_transposed = ma.transposed != a.flip,
        .b_transposed = mb.transposed != b.flip,
        .accumulate = accumulate,
        .ab_dtype = a.tensor->dtype,
        .c_dtype = c->dtype,
    };
    const lsi_gemm_batch batch = batch_of(c, a.tensor, b.tensor);
    return lsi_gemm_run_batch(&shape, &batch, lsi_tensor_raw(c),
                              lsi_tensor_raw(a.tensor),
                              lsi_tensor_raw(b.tensor));
}

/* ---- the operation ------------------------------------------------------- */

/* The factor that is a layer's weight; NULL: none is a parameter. */
static const ls_tensor *weight_of(const ls_tensor *a, const ls_tensor *b)
{
    if (b->param != NULL)
        return b;
    return a->param != NULL ? a : NULL;
}

/* c = a b, the gradient of an input. */
static ls_status multiply_backward(const ls_node *node, size_t input,
                                   const ls_tensor *c, bool accumulate,
                                   factor a, factor b)
{
    const ls_tensor *const weight =
        weight_of(ls_node_input(node, 0), ls_node_input(node, 1));
    LSI_LAYER(weight, "matmul",
              weight == ls_node_input(node, input) ? LSI_PASS_WEIGHT
                                                   : LSI_PASS_DATA);
    return multiply(c, accumulate, a, b);
}

static ls_status matmul_backward(ls_tape *tape, ls_node *node)
{
    const ls_tensor *a = ls_node_saved(node, 0), *b = ls_node_saved(node, 1);
    const ls_tensor *dy = ls_node_grad_output(tape, node, 0);
    bool accumulate = false;
    ls_tensor *da = ls_node_grad_input(tape, node, 0, &accumulate);
    if (dy != NULL && da != NULL)
        LS_TRY(multiply_backward(node, 0, da, accumulate, (factor){dy, false},
                                 (factor){b, true}));
    ls_tensor *db = ls_node_grad_input(tape, node, 1, &accumulate);
    if (dy != NULL && db != NULL)
        LS_TRY(multiply_backward(node, 1, db, accumulate, (factor){a, true},
                                 (factor){dy, false}));
    return ls_tape_status(tape);
}

const ls_function lsi_op_matmul = {"matmul", matmul_backward, 0};

/* y = a b, both as in memory. */
static ls_status multiply_forward(ls_tensor *const *inputs, const ls_tensor *y,
                                  ls_tensor *const *saved)
{
    LSI_LAYER(weight_of(inputs[0], inputs[1]), "matmul", LSI_PASS_FORWARD);
    return multiply(y, false, (factor){saved[0], false},
                    (factor){saved[1], false});
}

/* The shape of y, or false. */
static bool result_shape(const ls_tensor *a, const ls_tensor *b, int *ndim,
                         int64_t *shape)
{
    if (a->ndim < 2 || b->ndim < 2 || cols_of(a) != rows_of(b))
        return false;
    *ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (int d = 0; d < *ndim - 2; d++) {
        const int64_t x = batch_extent(a, *ndim - 2, d);
        const int64_t y = batch_extent(b, *ndim - 2, d);
        if (x != y && x != 1 && y != 1)
            return false;
        shape[d] = x == 1 ? y : x;
    }
    shape[*ndim - 2] = rows_of(a);
    shape[*ndim - 1] = cols_of(b);
    return true;
}

static bool check(ls_tape *tape, const ls_tensor *a, const ls_tensor *b,
                  int *ndim, int64_t *shape)
{
    if (!lsi_dtype_is_real(a->dtype)) {
        ls_tape_fail(tape, LS_ERR_DTYPE,
                     "matmul: a is %s; it must be f32, bf16 or f16",
                     ls_dtype_name(a->dtype));
        return false;
    }
    if (!lsi_op_check_dtype(tape, &lsi_op_matmul, b, a->dtype))
        return false;
    if (result_shape(a, b, ndim, shape))
        return true;
    ls_tape_fail(tape, LS_ERR_SHAPE,
                 "matmul: cannot multiply shapes %s and %s; expected (..., M, "
                 "K) and (..., K, N) with leading dimensions that broadcast",
                 lsi_shape_of(a).text, lsi_shape_of(b).text);
    return false;
}

ls_tensor *ls_matmul(ls_tape *tape, ls_tensor *a, ls_tensor *b)
{
    int ndim = 0;
    int64_t shape[LS_MAX_DIMS];
    ls_tensor *const inputs[] = {a, b};
    if (!lsi_op_begin_product(tape, &lsi_op_matmul, inputs, 2))
        return NULL;
    ls_tensor *const operands[] = {lsi_op_operand(tape, a),
                                   lsi_op_operand(tape, b)};
    if (ls_tape_status(tape) != LS_OK ||
        !check(tape, operands[0], operands[1], &ndim, shape))
        return NULL;
    ls_tensor *const saved[] = {as_matrices(tape, operands[0]),
                                as_matrices(tape, operands[1])};
    if (saved[0] == NULL || saved[1] == NULL)
        return NULL;
    ls_tensor *y = ls_tape_output(tape, saved[0]->dtype, ndim, shape);
    if (y == NULL)
        return NULL;
    const ls_status status = multiply_forward(inputs, y, saved);
    if (status != LS_OK)
        return lsi_tape_stop(tape, status);
    return ls_tape_record(tape, &lsi_op_matmul, NULL, inputs, 2, &y, 1, saved,
                          2);
}

/*
 * The public raw-pointer functions: they check the shape and choose a method.
 */
#include "array/compute/attention/attention.h"

#include <inttypes.h>
#include <math.h>

#include "array/compute/compute.h"
#include "array/compute/plan_cache.h"
#include "base/error.h"
#include "base/structs.h"
#include "observe/spans.h"

typedef struct method {
    const char *name;
    ls_status (*forward)(const lsi_attention *a, void *o, float *saved,
                         lsi_attention_inputs in);
    ls_status (*backward)(const lsi_attention *a, lsi_attention_inputs in,
                          lsi_attention_gradients g);
} method;

static const method methods[LS_ATTENTION_METHOD_COUNT] = {
    [LS_ATTENTION_FLASH] = {"flash", lsi_attention_flash_forward,
                            lsi_attention_flash_backward},
    [LS_ATTENTION_NAIVE] = {"naive", lsi_naive_forward_all,
                            lsi_naive_backward_all},
};

static bool is_method(ls_attention_method m)
{
    return (int)m >= 0 && (int)m < LS_ATTENTION_METHOD_COUNT;
}

const char *ls_attention_method_name(ls_attention_method m)
{
    return is_method(m) ? methods[m].name : "unknown";
}

static ls_status check_method(ls_attention_method m)
{
    if (is_method(m))
        return LS_OK;
    return lsi_fail(
        LS_ERR_ARGUMENT,
        "attention: method is %d; expected a value of ls_attention_method",
        (int)m);
}

static ls_status check_extents(const ls_attention_shape *s, int64_t kv_heads)
{
    if (s->batch < 0 || s->heads < 0 || s->queries < 0 || s->keys < 0)
        return lsi_fail(LS_ERR_SHAPE,
                        "attention: batch is %" PRId64 ", heads %" PRId64
                        ", queries %" PRId64 " and keys %" PRId64
                        "; none may be negative",
                        s->batch, s->heads, s->queries, s->keys);
    if (s->d < 1)
        return lsi_fail(LS_ERR_SHAPE,
                        "attention: the head size is %" PRId64
                        "; it must be at least 1",
                        s->d);
    if (kv_heads < 0 || (s->heads > 0 && kv_heads < 1) ||
        (kv_heads > 0 && s->heads % kv_heads != 0))
        return lsi_fail(
            LS_ERR_SHAPE,
            "attention: the number of query heads (%" PRId64
            ") must be a multiple of the number of key heads (%" PRId64 ")",
            s->heads, kv_heads);
    return LS_OK;
}

static ls_status check_values(const ls_attention_shape *s)
{
    if (s->dtype != LS_F32 && s->dtype != LS_BF16)
        return lsi_fail(
            LS_ERR_DTYPE,
            "attention: the dtype is %s; only f32 and bf16 are supported",
            ls_dtype_name(s->dtype));
    if (!(s->scale >= 0) || isinf(s->scale))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "attention: the scale is %g; it must be positive, or 0 "
                        "for 1/sqrt(d)",
                        s->scale);
    for (int64_t b = 0; s->key_counts != NULL && b < s->batch; b++) {
        if (s->key_counts[b] < 0 || s->key_counts[b] > s->keys)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "attention: key_counts[%" PRId64 "] is %" PRId64
                            "; expected 0 to %" PRId64 ", the number of keys",
                            b, s->key_counts[b], s->keys);
    }
    return LS_OK;
}

/* The number of elements must be one that memory could hold. */
static ls_status check_size(const ls_attention_shape *s, const char *what,
                            int64_t rows)
{
    int64_t n = s->d * (int64_t)sizeof(float);
    if (__builtin_mul_overflow(n, s->batch, &n) ||
        __builtin_mul_overflow(n, s->heads, &n) ||
        __builtin_mul_overflow(n, rows, &n))
        return lsi_fail(LS_ERR_SHAPE,
                        "attention: the %s are too large; their size in bytes "
                        "does not fit in 64 bits",
                        what);
    return LS_OK;
}

static ls_status resolve_strides(ls_attention_strides given, const char *what,
                                 int64_t heads, int64_t rows, int64_t d,
                                 ls_attention_strides *out)
{
    if (given.batch == 0 && given.head == 0 && given.row == 0) {
        *out = (ls_attention_strides){heads * rows * d, rows * d, d};
        return LS_OK;
    }
    const bool empty = heads == 0 || rows == 0;
    if (!empty && (given.row < d || given.head < 0 || given.batch < 0))
        return lsi_fail(LS_ERR_SHAPE,
                        "attention: the strides (batch %" PRId64
                        ", head %" PRId64 ", row %" PRId64
                        ") of %s are invalid; none may be negative, and the "
                        "row stride must be at least the head size (%" PRId64
                        ")",
                        given.batch, given.head, given.row, what, d);
    *out = given;
    return LS_OK;
}

static ls_status resolve(const ls_attention_shape *s, lsi_attention *out)
{
    const int64_t kv_heads = s->kv_heads == 0 ? s->heads : s->kv_heads;
    LS_TRY(check_extents(s, kv_heads));
    LS_TRY(check_values(s));
    LS_TRY(check_size(s, "queries", s->queries));
    LS_TRY(check_size(s, "keys", s->keys));
    lsi_attention a = {
        .batch = (size_t)s->batch,
        .heads = (size_t)s->heads,
        .kv_heads = (size_t)kv_heads,
        .queries = (size_t)s->queries,
        .keys = (size_t)s->keys,
        .d = (size_t)s->d,
        .group = kv_heads == 0 ? 1 : (size_t)(s->heads / kv_heads),
        .half = s->dtype == LS_BF16,
        .causal = s->causal,
        .scale = (float)(s->scale == 0 ? 1 / sqrt((double)s->d) : s->scale),
        .key_counts = s->key_counts};
    LS_TRY(resolve_strides(s->q_strides, "q", s->heads, s->queries, s->d,
                           &a.q_strides));
    LS_TRY(resolve_strides(s->kv_strides, "k and v", kv_heads, s->keys, s->d,
                           &a.kv_strides));
    LS_TRY(resolve_strides(s->o_strides, "o", s->heads, s->queries, s->d,
                           &a.o_strides));
    *out = a;
    return LS_OK;
}

ls_status lsi_attention_check(const ls_attention_shape *shape,
                              lsi_attention *out)
{
    ls_attention_shape own;
    LS_TRY(LSI_STRUCT_READ(&own, shape, ls_attention_shape, o_strides));
    return resolve(&own, out);
}

ls_status ls_attention_saved_bytes(const ls_attention_shape *shape,
                                   ls_attention_method m, size_t *bytes)
{
    LS_NEED(shape, bytes);
    LS_TRY(lsi_compute_check());
    lsi_attention a;
    LS_TRY(check_method(m));
    LS_TRY(lsi_attention_check(shape, &a));
    const size_t rows = a.batch * a.heads * a.queries;
    const size_t each =
        sizeof(float) + (m == LS_ATTENTION_NAIVE ? a.keys * sizeof(float)
                                                 : sizeof(lsi_softmax_row));
    size_t total;
    if (__builtin_mul_overflow(rows, each, &total))
        return lsi_fail(LS_ERR_SHAPE,
                        "attention: a score matrix of %zu rows and %zu keys is "
                        "too large; its size in bytes does not fit in 64 bits",
                        rows, a.keys);
    *bytes = total;
    return LS_OK;
}

ls_status lsi_attention_workspace(size_t bytes, const char *what, void **out)
{
    static const lsi_plan_kind kind = LSI_WORKSPACE_KIND("attention workspace");
    return lsi_workspace_get(&kind, bytes, what, out);
}

static bool has_queries(const lsi_attention *a)
{
    return a->batch > 0 && a->heads > 0 && a->queries > 0;
}

static bool has_keys(const lsi_attention *a)
{
    return a->batch > 0 && a->kv_heads > 0 && a->keys > 0;
}

ls_status ls_attention_forward(const ls_attention_shape *shape,
                               ls_attention_method m, void *o, float *saved,
                               const void *q, const void *k, const void *v)
{
    LS_NEED(shape);
    LS_TRY(lsi_compute_check());
    lsi_attention a;
    LS_TRY(check_method(m));
    LS_TRY(lsi_attention_check(shape, &a));
    if (has_queries(&a)) {
        LS_NEED(o, saved, q);
    }
    if (has_keys(&a)) {
        LS_NEED(k, v);
    }
    LSI_SPAN(OPERATION, "attention", 0, 0);
    return methods[m].forward(&a, o, saved, (lsi_attention_inputs){q, k, v});
}

ls_status ls_attention_backward(const ls_attention_shape *shape,
                                ls_attention_method m, void *dq, void *dk,
                                void *dv, const void *dout, const void *q,
                                const void *k, const void *v, const void *o,
                                const float *saved)
{
    LS_NEED(shape);
    LS_TRY(lsi_compute_check());
    lsi_attention a;
    LS_TRY(check_method(m));
    LS_TRY(lsi_attention_check(shape, &a));
    if (has_queries(&a)) {
        LS_NEED(dq, dout, q, o);
        LS_NEED(saved);
    }
    if (has_keys(&a)) {
        LS_NEED(dk, dv, k, v);
    }
    LSI_SPAN(OPERATION, "attention backward", 0, 0);
    return methods[m].backward(
        &a, (lsi_attention_inputs){q, k, v},
        (lsi_attention_gradients){dq, dk, dv, dout, o, saved});
}

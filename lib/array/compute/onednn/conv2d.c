/*
 * The three passes of a convolution. Weights are plain outside, and in the best
 * layout for a pass inside; the reordered copy and tensors in other layouts
 * live in the thread's scratch memory for the duration of one call.
 */
#include "array/compute/onednn/conv2d.h"

#include "array/compute/dense.h"
#include "array/compute/onednn/conv2d_choice.h"
#include "array/compute/onednn/op.h"
#include "array/kernels/kernels.h"
#include "base/error.h"
#include "base/memory.h"

enum { PASSES = 3 };

/* The place of each argument in a pass's list of roles. */
enum { OUTPUT = 0, FIRST = 1, SECOND = 2, BIAS = 3 };

/* Bytes from the start of the scratch memory; each piece is 64-byte aligned. */
typedef struct pieces {
    size_t weight, bias, src, dst, end;
} pieces;

typedef struct conv_pass {
    lsi_onednn_op op; /* not made yet if its primitive is NULL */
    lsi_onednn_op copy_weight, add_weight;
    bool weight_is_plain;
    lsi_conv2d_layouts layouts;
    pieces at;
} conv_pass;

struct lsi_onednn_conv2d {
    lsi_conv2d_shape shape;
    int64_t oh, ow;
    lsi_conv2d_layouts layouts;
    conv_pass passes[PASSES];
};

/*
 * The output first, then the inputs (the weights after the tensors), then the
 * bias.
 */
static const int roles[PASSES][4] = {
    [LSI_CONV2D_FORWARD] = {DNNL_ARG_DST, DNNL_ARG_SRC, DNNL_ARG_WEIGHTS,
                            DNNL_ARG_BIAS},
    [LSI_CONV2D_DATA] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST,
                         DNNL_ARG_WEIGHTS},
    [LSI_CONV2D_WEIGHT] = {DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_SRC,
                           DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_BIAS}};

static size_t align(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* The weights outside: f32 where they are gradients. */
static dnnl_status_t plain_weight(dnnl_memory_desc_t *out,
                                  const lsi_conv2d_shape *s,
                                  lsi_conv2d_pass which)
{
    dnnl_dims_t dims;
    const int ndim = lsi_conv2d_weight_dims(s, dims);
    const ls_dtype dtype = which == LSI_CONV2D_WEIGHT ? LS_F32 : s->dtype;
    return dnnl_memory_desc_init_by_tag(out, ndim, dims,
                                        lsi_onednn_dtype(dtype),
                                        ndim == 4 ? dnnl_oihw : dnnl_goihw);
}

static const dnnl_memory_desc_t *weight_desc(const conv_pass *p,
                                             lsi_conv2d_pass which)
{
    const int i = which == LSI_CONV2D_WEIGHT ? OUTPUT : SECOND;
    const dnnl_memory_desc_t *desc = NULL;
    dnnl_memory_get_memory_desc(p->op.args[i].memory, &desc);
    return desc;
}

/* The copies between plain weights and those of the pass. */
static ls_status plan_weights(conv_pass *p, lsi_conv2d_pass which,
                              const lsi_conv2d_shape *s)
{
    dnnl_memory_desc_t plain;
    LS_TRY(lsi_onednn_check(plain_weight(&plain, s, which),
                            "describe the layout of the weights"));
    const dnnl_memory_desc_t *inner = weight_desc(p, which);
    p->weight_is_plain = dnnl_memory_desc_equal(&plain, inner);
    if (which == LSI_CONV2D_WEIGHT) {
        LS_TRY(lsi_onednn_op_reorder(&p->add_weight, inner, &plain, true));
        return lsi_onednn_op_reorder(&p->copy_weight, inner, &plain, false);
    }
    if (p->weight_is_plain)
        return LS_OK;
    return lsi_onednn_op_reorder(&p->copy_weight, &plain, inner, false);
}

/* The places of the pieces of scratch memory. */
static void plan_pieces(conv_pass *p, lsi_conv2d_pass which,
                        const lsi_onednn_conv2d *conv)
{
    const lsi_conv2d_shape *s = &conv->shape;
    const bool move_src = p->layouts.src != conv->layouts.src;
    const bool move_dst = p->layouts.dst != conv->layouts.dst;
    const int64_t src = move_src ? s->n * s->c * s->h * s->w : 0;
    const int64_t dst = move_dst ? s->n * s->o * conv->oh * conv->ow : 0;
    size_t first = p->op.scratch_bytes;
    if (p->copy_weight.scratch_bytes > first)
        first = p->copy_weight.scratch_bytes;
    if (p->add_weight.scratch_bytes > first)
        first = p->add_weight.scratch_bytes;
    p->at.weight = align(first);
    p->at.bias =
        p->at.weight + align(dnnl_memory_desc_get_size(weight_desc(p, which)));
    p->at.src = p->at.bias + align((size_t)s->o * sizeof(float));
    p->at.dst = p->at.src + align((size_t)src * sizeof(float));
    p->at.end = p->at.dst + align((size_t)dst * sizeof(float));
}

static ls_status plan_pass(const lsi_onednn_conv2d *conv, lsi_conv2d_pass which,
                           conv_pass *p)
{
    const int n_roles =
        conv->shape.bias && which != LSI_CONV2D_DATA ? BIAS + 1 : BIAS;
    LS_TRY(lsi_conv2d_pass_layouts(&conv->shape, which, conv->layouts,
                                   &p->layouts));
    dnnl_primitive_desc_t desc;
    LS_TRY(lsi_conv2d_describe(&conv->shape, which, p->layouts, &desc));
    const ls_status status =
        lsi_onednn_op_make(&p->op, desc, roles[which], n_roles);
    dnnl_primitive_desc_destroy(desc);
    LS_TRY(status);
    LS_TRY(plan_weights(p, which, &conv->shape));
    plan_pieces(p, which, conv);
    return LS_OK;
}

static void free_pass(conv_pass *p)
{
    lsi_onednn_op_free(&p->op);
    lsi_onednn_op_free(&p->copy_weight);
    lsi_onednn_op_free(&p->add_weight);
}

/* The planned pass and the scratch memory to run it in. */
static ls_status get_pass(lsi_onednn_conv2d *conv, lsi_conv2d_pass which,
                          conv_pass **pass, char **scratch)
{
    lsi_onednn_thread *thread;
    LS_TRY(lsi_onednn_thread_get(&thread));
    conv_pass *p = &conv->passes[which];
    if (p->op.primitive == NULL) {
        conv_pass made = {0};
        const ls_status status = plan_pass(conv, which, &made);
        if (status != LS_OK) {
            free_pass(&made);
            return status;
        }
        *p = made;
    }
    *pass = p;
    return lsi_onednn_reserve(p->at.end, scratch);
}

ls_status lsi_onednn_conv2d_new(lsi_onednn_conv2d **out,
                                const lsi_conv2d_shape *shape)
{
    lsi_onednn_thread *thread; /* checks for memory for threads, too */
    LS_TRY(lsi_onednn_thread_get(&thread));
    lsi_conv2d_layouts layouts;
    LS_TRY(lsi_conv2d_choose_layouts(shape, &layouts));
    lsi_onednn_conv2d *conv;
    LS_TRY(lsi_alloc_zeroed(&conv, sizeof(lsi_onednn_conv2d), LS_MEMORY_OTHER,
                            "convolution plan"));
    conv->shape = *shape;
    conv->oh = lsi_conv2d_extent(shape, shape->h, shape->kh);
    conv->ow = lsi_conv2d_extent(shape, shape->w, shape->kw);
    conv->layouts = layouts;
    *out = conv;
    return LS_OK;
}

void lsi_onednn_conv2d_free(lsi_onednn_conv2d *conv)
{
    for (int i = 0; i < PASSES; i++)
        free_pass(&conv->passes[i]);
    lsi_free(conv);
}

lsi_conv2d_layouts lsi_onednn_conv2d_layouts(const lsi_onednn_conv2d *conv)
{
    return conv->layouts;
}

/* *out = the weights as the pass reads them. */
static ls_status inner_weight(conv_pass *p, char *scratch, const void *weight,
                              void **out)
{
    *out = lsi_onednn_input(weight);
    if (p->weight_is_plain)
        return LS_OK;
    void *const pointers[] = {*out, scratch + p->at.weight};
    *out = pointers[1];
    return lsi_onednn_op_run(&p->copy_weight, scratch, pointers);
}

ls_status lsi_onednn_conv2d_forward(lsi_onednn_conv2d *conv, void *dst,
                                    const void *src, const void *weight,
                                    const float *bias_or_null)
{
    conv_pass *p;
    char *scratch;
    void *inner;
    LS_TRY(get_pass(conv, LSI_CONV2D_FORWARD, &p, &scratch));
    LS_TRY(inner_weight(p, scratch, weight, &inner));
    void *const pointers[] = {dst, lsi_onednn_input(src), inner,
                              lsi_onednn_input(bias_or_null)};
    return lsi_onednn_op_run(&p->op, scratch, pointers);
}

ls_status lsi_onednn_conv2d_backward_data(lsi_onednn_conv2d *conv, void *dsrc,
                                          const void *ddst, const void *weight)
{
    const lsi_conv2d_shape *s = &conv->shape;
    conv_pass *p;
    char *scratch;
    void *inner;
    LS_TRY(get_pass(conv, LSI_CONV2D_DATA, &p, &scratch));
    LS_TRY(inner_weight(p, scratch, weight, &inner));
    const bool move_src = p->layouts.src != conv->layouts.src;
    const bool move_dst = p->layouts.dst != conv->layouts.dst;
    void *moved_dst = scratch + p->at.dst, *moved_src = scratch + p->at.src;
    if (move_dst)
        LS_TRY(lsi_reorder(moved_dst, p->layouts.dst, ddst, conv->layouts.dst,
                           s->dtype,
                           (int64_t[]){s->n, s->o, conv->oh, conv->ow}));
    void *const pointers[] = {move_src ? moved_src : dsrc,
                              move_dst ? moved_dst : lsi_onednn_input(ddst),
                              inner};
    LS_TRY(lsi_onednn_op_run(&p->op, scratch, pointers));
    if (!move_src)
        return LS_OK;
    return lsi_reorder(dsrc, conv->layouts.src, moved_src, p->layouts.src,
                       s->dsrc_dtype, (int64_t[]){s->n, s->c, s->h, s->w});
}

ls_status lsi_onednn_conv2d_backward_weight(lsi_onednn_conv2d *conv,
                                            float *dweight,
                                            float *dbias_or_null,
                                            const void *src, const void *ddst,
                                            bool accumulate)
{
    conv_pass *p;
    char *scratch;
    LS_TRY(get_pass(conv, LSI_CONV2D_WEIGHT, &p, &scratch));
    const bool direct = p->weight_is_plain && !accumulate;
    float *bias = (float *)(void *)(scratch + p->at.bias);
    float *weight = (float *)(void *)(scratch + p->at.weight);
    void *const pointers[] = {direct ? dweight : weight, lsi_onednn_input(src),
                              lsi_onednn_input(ddst),
                              accumulate ? bias : dbias_or_null};
    LS_TRY(lsi_onednn_op_run(&p->op, scratch, pointers));
    if (accumulate && conv->shape.bias)
        lsi_kernels_get()->add(dbias_or_null, dbias_or_null, bias,
                               (size_t)conv->shape.o);
    if (direct)
        return LS_OK;
    void *const copy[] = {weight, dweight};
    return lsi_onednn_op_run(accumulate ? &p->add_weight : &p->copy_weight,
                             scratch, copy);
}

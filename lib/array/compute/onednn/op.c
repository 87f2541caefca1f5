/* Making and running primitives. */
#include "array/compute/onednn/op.h"

#include "array/compute/onednn/calls.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "base/error.h"

size_t lsi_onednn_plan_bytes(void)
{
    const bool wide = lsi_kernels_get()->isa > LSI_ISA_AVX2;
    return (size_t)(wide ? 44 : 24) << 10;
}

static dnnl_status_t append_post_ops(dnnl_primitive_attr_t attr,
                                     bool accumulate, bool relu)
{
    dnnl_post_ops_t ops;
    dnnl_status_t status = lsi_dnnl_post_ops_create(&ops);
    if (status != dnnl_success)
        return status;
    if (accumulate)
        status = lsi_dnnl_post_ops_append_sum(ops, 1.0F);
    if (status == dnnl_success && relu)
        status = lsi_dnnl_post_ops_append_eltwise(ops, 1.0F, dnnl_eltwise_relu,
                                                  0.0F, 0.0F);
    if (status == dnnl_success)
        status = lsi_dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    return status;
}

ls_status lsi_onednn_attr(dnnl_primitive_attr_t *out, bool accumulate,
                          bool relu)
{
    dnnl_primitive_attr_t attr;
    LS_TRY(lsi_onednn_check(lsi_dnnl_primitive_attr_create(&attr),
                            "create attributes"));
    dnnl_status_t status = dnnl_primitive_attr_set_scratchpad_mode(
        attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && (accumulate || relu))
        status = append_post_ops(attr, accumulate, relu);
    if (status != dnnl_success) {
        dnnl_primitive_attr_destroy(attr);
        return lsi_onednn_check(status, "create attributes");
    }
    *out = attr;
    return LS_OK;
}

static ls_status add_arg(lsi_onednn_op *op, int role,
                         const dnnl_memory_desc_t *desc)
{
    dnnl_engine_t engine;
    LS_TRY(lsi_onednn_engine(&engine));
    dnnl_exec_arg_t *arg = &op->args[op->n_args];
    LS_TRY(lsi_onednn_check(
        lsi_dnnl_memory_create(&arg->memory, desc, engine, DNNL_MEMORY_NONE),
        "create a memory object"));
    arg->arg = role;
    op->n_args++;
    return LS_OK;
}

static ls_status add_args(lsi_onednn_op *op, dnnl_primitive_desc_t desc,
                          const int *roles, int n_roles)
{
    for (int i = 0; i < n_roles; i++)
        LS_TRY(add_arg(op, roles[i],
                       dnnl_primitive_desc_query_md(
                           desc, dnnl_query_exec_arg_md, roles[i])));
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    op->scratch_bytes = dnnl_memory_desc_get_size(scratch);
    LS_TRY(add_arg(op, DNNL_ARG_SCRATCHPAD, scratch));
    op->n_args--;
    op->threads = lsi_threads();
    return lsi_onednn_check(lsi_dnnl_primitive_create(&op->primitive, desc),
                            "create a primitive");
}

ls_status lsi_onednn_op_make(lsi_onednn_op *op, dnnl_primitive_desc_t desc,
                             const int *roles, int n_roles)
{
    lsi_onednn_op made = {0};
    const ls_status status = add_args(&made, desc, roles, n_roles);
    if (status == LS_OK)
        *op = made;
    else
        lsi_onednn_op_free(&made);
    return status;
}

ls_status lsi_onednn_op_reorder(lsi_onednn_op *op,
                                const dnnl_memory_desc_t *src,
                                const dnnl_memory_desc_t *dst, bool accumulate)
{
    static const int roles[] = {DNNL_ARG_SRC, DNNL_ARG_DST};
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc;
    LS_TRY(lsi_onednn_engine(&engine));
    LS_TRY(lsi_onednn_attr(&attr, accumulate, false));
    const dnnl_status_t status = lsi_dnnl_reorder_primitive_desc_create(
        &desc, src, engine, dst, engine, attr);
    dnnl_primitive_attr_destroy(attr);
    LS_TRY(lsi_onednn_check(status, "create a reorder of weights"));
    const ls_status made = lsi_onednn_op_make(op, desc, roles, 2);
    dnnl_primitive_desc_destroy(desc);
    return made;
}

void lsi_onednn_op_free(lsi_onednn_op *op)
{
    for (int i = 0; i <= LSI_ONEDNN_MAX_ARGS; i++)
        if (op->args[i].memory)
            dnnl_memory_destroy(op->args[i].memory);
    if (op->primitive)
        dnnl_primitive_destroy(op->primitive);
    *op = (lsi_onednn_op){0};
}

ls_status lsi_onednn_op_run(lsi_onednn_op *op, void *scratch,
                            void *const *pointers)
{
    lsi_onednn_thread *thread;
    LS_TRY(lsi_onednn_thread_get(&thread));
    dnnl_status_t status =
        dnnl_memory_set_data_handle(op->args[op->n_args].memory, scratch);
    for (int i = 0; i < op->n_args && status == dnnl_success; i++)
        status = dnnl_memory_set_data_handle(op->args[i].memory, pointers[i]);
    if (status == dnnl_success && !op->has_run)
        status = lsi_dnnl_ask();
    if (status == dnnl_success)
        status =
            lsi_dnnl_primitive_execute(op->primitive, thread->stream,
                                       op->n_args + 1, op->args, op->threads);
    if (status == dnnl_success)
        status = dnnl_stream_wait(thread->stream);
    op->has_run |= status == dnnl_success;
    return lsi_onednn_check(status, "execute a primitive");
}

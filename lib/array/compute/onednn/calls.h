/*
 * The functions of oneDNN that allocate memory, each as lsi_ and its name.
 *
 * oneDNN is C++. Where its memory runs out it throws through its C interface,
 * or writes to a null pointer. So functions that make something first ask the
 * system for as much memory as they may take, and an exception becomes a
 * status.
 *
 * Not covered: memory that is refused although it was available a moment
 * before, because another thread has taken it in between. This ends the process
 * if oneDNN does not check. An exception in one of its parallel regions ends
 * the process, too. Runs after the first take a few hundred bytes, which the
 * first has given back.
 */
#ifndef LS_ARRAY_COMPUTE_ONEDNN_CALLS_H
#define LS_ARRAY_COMPUTE_ONEDNN_CALLS_H

#include <oneapi/dnnl/dnnl.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * dnnl_out_of_memory unless the system has enough memory to make a primitive or
 * to run it for the first time. Most of it is for code.
 */
dnnl_status_t lsi_dnnl_ask(void);

/* Lets oneDNN keep at most `capacity` primitives in its cache. */
dnnl_status_t lsi_dnnl_limit_primitives(int capacity);

dnnl_status_t lsi_dnnl_set_max_cpu_isa(dnnl_cpu_isa_t isa);
dnnl_status_t lsi_dnnl_engine_create(dnnl_engine_t *engine,
                                     dnnl_engine_kind_t kind, size_t index);
dnnl_status_t lsi_dnnl_stream_create(dnnl_stream_t *stream,
                                     dnnl_engine_t engine, unsigned flags);

dnnl_status_t lsi_dnnl_primitive_attr_create(dnnl_primitive_attr_t *attr);
dnnl_status_t lsi_dnnl_primitive_attr_set_post_ops(dnnl_primitive_attr_t attr,
                                                   const_dnnl_post_ops_t ops);
dnnl_status_t lsi_dnnl_post_ops_create(dnnl_post_ops_t *ops);
dnnl_status_t lsi_dnnl_post_ops_append_sum(dnnl_post_ops_t ops, float scale);
dnnl_status_t lsi_dnnl_post_ops_append_eltwise(dnnl_post_ops_t ops, float scale,
                                               dnnl_alg_kind_t algorithm,
                                               float alpha, float beta);

dnnl_status_t lsi_dnnl_primitive_desc_create(
    dnnl_primitive_desc_t *desc, const_dnnl_op_desc_t op,
    const_dnnl_primitive_attr_t attr, dnnl_engine_t engine,
    const_dnnl_primitive_desc_t forward_or_null);
dnnl_status_t lsi_dnnl_reorder_primitive_desc_create(
    dnnl_primitive_desc_t *desc, const dnnl_memory_desc_t *src,
    dnnl_engine_t src_engine, const dnnl_memory_desc_t *dst,
    dnnl_engine_t dst_engine, const_dnnl_primitive_attr_t attr);
dnnl_status_t lsi_dnnl_primitive_create(dnnl_primitive_t *primitive,
                                        const_dnnl_primitive_desc_t desc);
dnnl_status_t lsi_dnnl_memory_create(dnnl_memory_t *memory,
                                     const dnnl_memory_desc_t *desc,
                                     dnnl_engine_t engine, void *handle);

/*
 * Does not ask the system for memory: a step calls this function. Runs on the
 * number of threads for which the primitive was made.
 */
dnnl_status_t lsi_dnnl_primitive_execute(const_dnnl_primitive_t primitive,
                                         dnnl_stream_t stream, int n_args,
                                         const dnnl_exec_arg_t *args,
                                         int threads);

#ifdef __cplusplus
}
#endif

#endif

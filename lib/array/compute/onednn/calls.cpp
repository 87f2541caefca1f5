/* Calls of oneDNN that C may make. See calls.h for their guarantees. */
#include "array/compute/onednn/calls.h"

#include <new>
#include <sys/mman.h>

#include "array/compute/threads.h"

/*
 * Measured for oneDNN 2.6: making a primitive takes up to 3.5 MB for code and
 * 0.3 MB in addition. The first run of one makes code that primitives share,
 * and takes up to 12 MB and 1.5 MB.
 */
static constexpr std::size_t most = std::size_t{16} << 20;

/* Nothing of it is touched, so it costs no more than two system calls. */
dnnl_status_t lsi_dnnl_ask(void)
{
    void *const room = mmap(nullptr, most, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return dnnl_out_of_memory;
    munmap(room, most);
    return dnnl_success;
}

namespace
{

/*
 * Empties oneDNN's cache. A primitive that could not be made leaves a promise
 * in the cache, and asking for an equal one again would fail for ever.
 */
void forget_primitives()
{
    int capacity = 0;
    if (dnnl_get_primitive_cache_capacity(&capacity) != dnnl_success)
        return;
    dnnl_set_primitive_cache_capacity(0);
    dnnl_set_primitive_cache_capacity(capacity);
}

/*
 * oneDNN asks OpenMP how many threads there are, when it plans and when it
 * runs. The answer is for this call only: the program's own loops keep theirs.
 */
template <typename Call>
dnnl_status_t guarded(Call call, int threads = lsi_threads()) noexcept
{
    const int before = lsi_threads_lend(threads);
    dnnl_status_t status;
    try {
        status = call();
    } catch (const std::bad_alloc &) {
        status = dnnl_out_of_memory;
    } catch (...) {
        status = dnnl_runtime_error;
    }
    (void)lsi_threads_lend(before);
    return status;
}

template <typename Call> dnnl_status_t asked(Call call) noexcept
{
    const dnnl_status_t status = lsi_dnnl_ask();
    return status == dnnl_success ? guarded(call) : status;
}

} // namespace

dnnl_status_t lsi_dnnl_limit_primitives(int capacity)
{
    return asked([&] {
        int kept = 0;
        const dnnl_status_t status = dnnl_get_primitive_cache_capacity(&kept);
        return status == dnnl_success && kept > capacity
                   ? dnnl_set_primitive_cache_capacity(capacity)
                   : status;
    });
}

dnnl_status_t lsi_dnnl_set_max_cpu_isa(dnnl_cpu_isa_t isa)
{
    return asked([&] { return dnnl_set_max_cpu_isa(isa); });
}

dnnl_status_t lsi_dnnl_engine_create(dnnl_engine_t *engine,
                                     dnnl_engine_kind_t kind, size_t index)
{
    return asked([&] { return dnnl_engine_create(engine, kind, index); });
}

dnnl_status_t lsi_dnnl_stream_create(dnnl_stream_t *stream,
                                     dnnl_engine_t engine, unsigned flags)
{
    return asked([&] { return dnnl_stream_create(stream, engine, flags); });
}

dnnl_status_t lsi_dnnl_primitive_attr_create(dnnl_primitive_attr_t *attr)
{
    return asked([&] { return dnnl_primitive_attr_create(attr); });
}

dnnl_status_t lsi_dnnl_primitive_attr_set_post_ops(dnnl_primitive_attr_t attr,
                                                   const_dnnl_post_ops_t ops)
{
    return asked([&] { return dnnl_primitive_attr_set_post_ops(attr, ops); });
}

dnnl_status_t lsi_dnnl_post_ops_create(dnnl_post_ops_t *ops)
{
    return asked([&] { return dnnl_post_ops_create(ops); });
}

dnnl_status_t lsi_dnnl_post_ops_append_sum(dnnl_post_ops_t ops, float scale)
{
    return asked([&] { return dnnl_post_ops_append_sum(ops, scale); });
}

dnnl_status_t lsi_dnnl_post_ops_append_eltwise(dnnl_post_ops_t ops, float scale,
                                               dnnl_alg_kind_t algorithm,
                                               float alpha, float beta)
{
    return asked([&] {
        return dnnl_post_ops_append_eltwise(ops, scale, algorithm, alpha, beta);
    });
}

dnnl_status_t lsi_dnnl_primitive_desc_create(
    dnnl_primitive_desc_t *desc, const_dnnl_op_desc_t op,
    const_dnnl_primitive_attr_t attr, dnnl_engine_t engine,
    const_dnnl_primitive_desc_t forward_or_null)
{
    return asked([&] {
        return dnnl_primitive_desc_create(desc, op, attr, engine,
                                          forward_or_null);
    });
}

dnnl_status_t lsi_dnnl_reorder_primitive_desc_create(
    dnnl_primitive_desc_t *desc, const dnnl_memory_desc_t *src,
    dnnl_engine_t src_engine, const dnnl_memory_desc_t *dst,
    dnnl_engine_t dst_engine, const_dnnl_primitive_attr_t attr)
{
    return asked([&] {
        return dnnl_reorder_primitive_desc_create(desc, src, src_engine, dst,
                                                  dst_engine, attr);
    });
}

dnnl_status_t lsi_dnnl_primitive_create(dnnl_primitive_t *primitive,
                                        const_dnnl_primitive_desc_t desc)
{
    const dnnl_status_t status =
        asked([&] { return dnnl_primitive_create(primitive, desc); });
    if (status != dnnl_success)
        (void)guarded([] {
            forget_primitives();
            return dnnl_success;
        });
    return status;
}

dnnl_status_t lsi_dnnl_memory_create(dnnl_memory_t *memory,
                                     const dnnl_memory_desc_t *desc,
                                     dnnl_engine_t engine, void *handle)
{
    return asked(
        [&] { return dnnl_memory_create(memory, desc, engine, handle); });
}

dnnl_status_t lsi_dnnl_primitive_execute(const_dnnl_primitive_t primitive,
                                         dnnl_stream_t stream, int n_args,
                                         const dnnl_exec_arg_t *args,
                                         int threads)
{
    return guarded(
        [&] { return dnnl_primitive_execute(primitive, stream, n_args, args); },
        threads);
}

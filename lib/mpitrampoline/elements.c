/*
 * MPI's element types and operations by those of the library, which has no
 * 16-bit and no unsigned integers of more than 8 bits, and no complex numbers.
 */
#include "mpitrampoline/mpiabi.h"

static const struct {
    const char *name;
    ls_dtype dtype;
} types[TYPE_COUNT] = {
#define X(name, dtype) [TYPE_##name] = {#name, dtype},
    MPI_TYPES(X)
#undef X
};

static const ls_reduce_op ops[OP_COUNT] = {
#define X(name, op) [OP_##name] = (op),
    MPI_OPS(X)
#undef X
};

static bool is_16_bit(mpi_type type)
{
    return type == TYPE_INT16_T || type == TYPE_UINT16_T;
}

static bool is_complex(mpi_type type)
{
    return type == TYPE_C_COMPLEX || type == TYPE_C_DOUBLE_COMPLEX;
}

size_t mpi_type_bytes(mpi_type type)
{
    const size_t bytes = ls_dtype_size(types[type].dtype);
    return is_16_bit(type) ? 2 : is_complex(type) ? 2 * bytes : bytes;
}

int mpi_reduction_of(mpi_type type, mpi_op op, reduction *out)
{
    const bool known =
        type > TYPE_NULL && type < TYPE_COUNT && op > OP_NULL && op < OP_COUNT;
    if (!known)
        return mpi_failed("unknown type %zu or reduction %zu of MPI",
                          (size_t)type, (size_t)op);
    if (is_complex(type) && op != OP_SUM)
        return mpi_failed("complex numbers can only be summed");
    const bool ordered = op == OP_MIN || op == OP_MAX;
    const bool wide = type == TYPE_UINT32_T || type == TYPE_UINT64_T;
    *out = (reduction){.dtype = types[type].dtype,
                       .op = ops[op],
                       .parts = is_complex(type) ? 2 : 1,
                       .converted = is_16_bit(type) || (wide && ordered),
                       .type = type};
    return MPI_OK;
}

#define CONVERT(target, source, value)                                         \
    do {                                                                       \
        target *const out = to;                                                \
        const source *const in = from;                                         \
        for (size_t i = 0; i < count; i++)                                     \
            out[i] = (target)(value);                                          \
    } while (0)

/* With its upper bit flipped, an unsigned number is in the signed order. */
static void flip(const reduction *r, void *to, const void *from, size_t count)
{
    if (r->type == TYPE_UINT32_T)
        CONVERT(uint32_t, uint32_t, in[i] ^ (UINT32_C(1) << 31));
    else
        CONVERT(uint64_t, uint64_t, in[i] ^ (UINT64_C(1) << 63));
}

void mpi_convert(const reduction *r, void *to, const void *from, size_t count)
{
    if (r->type == TYPE_INT16_T)
        CONVERT(int32_t, int16_t, in[i]);
    else if (r->type == TYPE_UINT16_T)
        CONVERT(int32_t, uint16_t, in[i]);
    else
        flip(r, to, from, count);
}

void mpi_convert_back(const reduction *r, void *to, const void *from,
                      size_t count)
{
    if (is_16_bit(r->type))
        CONVERT(uint16_t, int32_t, in[i]);
    else
        flip(r, to, from, count);
}

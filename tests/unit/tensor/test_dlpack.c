/* Tensors from and for other libraries. */
#include "lockstep/dlpack.h"
#include "model/tensor/tensor.h"
#include "testing.h"

/* The declarations of DLPack's header that another library has, after ours. */
typedef struct DLManagedTensorVersioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    struct {
        void *data;
        struct {
            enum { kDLCPU = 1, kDLCUDA = 2 } device_type;
            int32_t device_id;
        } device;
        int32_t ndim;
        struct {
            uint8_t code, bits;
            uint16_t lanes;
        } dtype;
        int64_t *shape, *strides;
        uint64_t byte_offset;
    } dl_tensor;
} DLManagedTensorVersioned;

static int deleted;

static void count_deletion(DLManagedTensorVersioned *self)
{
    ++*(int *)self->manager_ctx;
}

static float memory[7] = {9, 0, 1, 2, 3, 4, 5};
static int64_t shape[] = {2, 3}, strides[] = {3, 1};

/* Six floats after the first one of memory. */
static DLManagedTensorVersioned good(void)
{
    deleted = 0;
    return (DLManagedTensorVersioned){.version = {1, 3},
                                      .manager_ctx = &deleted,
                                      .deleter = count_deletion,
                                      .dl_tensor = {.data = memory,
                                                    .device = {kDLCPU, 0},
                                                    .ndim = 2,
                                                    .dtype = {2, 32, 1},
                                                    .shape = shape,
                                                    .strides = strides,
                                                    .byte_offset = 4}};
}

/* ---- in ------------------------------------------------------------------ */

static void memory_is_shared(void **state)
{
    (void)state;
    DLManagedTensorVersioned m = good();
    ls_tensor *t = NULL, *row = NULL;
    assert_ok(ls_tensor_from_dlpack(&t, &m));
    assert_ptr_equal(tensor_data(t), memory + 1);
    assert_int_equal(ls_tensor_dtype(t), LS_F32);
    assert_true(ls_tensor_is_contiguous(t));
    assert_ok(ls_tensor_narrow(t, 0, 1, 2, &row));
    ls_tensor_free(&t);
    assert_int_equal(deleted, 0);
    assert_true(((float *)tensor_data(row))[0] == 3);
    ls_tensor_free(&row);
    assert_int_equal(deleted, 1);
}

static void strides_or_none(void **state)
{
    (void)state;
    DLManagedTensorVersioned m = good();
    int64_t turned[] = {1, 2}, columns[] = {2, 3};
    ls_tensor *t = NULL;
    m.dl_tensor.strides = NULL;
    m.deleter = NULL; /* which DLPack allows */
    assert_ok(ls_tensor_from_dlpack(&t, &m));
    assert_int_equal(ls_tensor_strides(t)[0], 3);
    ls_tensor_free(&t);
    m.dl_tensor.strides = turned;
    m.dl_tensor.shape = columns;
    assert_ok(ls_tensor_from_dlpack(&t, &m));
    assert_false(ls_tensor_is_contiguous(t));
    assert_int_equal(ls_tensor_strides(t)[1], 2);
    ls_tensor_free(&t);
}

static void scalars_and_empty_arrays(void **state)
{
    (void)state;
    DLManagedTensorVersioned m = good();
    int64_t none[] = {0, 3}, back[] = {-1, -3}, one[] = {1, 1};
    ls_tensor *t = NULL;
    double value = 0;
    m.dl_tensor.ndim = 0;
    m.dl_tensor.shape = m.dl_tensor.strides = NULL;
    assert_ok(ls_tensor_from_dlpack(&t, &m));
    assert_ok(ls_tensor_item(t, &value));
    assert_true(value == 0);
    ls_tensor_free(&t);
    m = good();
    m.dl_tensor.shape = none;
    m.dl_tensor.data = NULL;
    m.dl_tensor.byte_offset = 0;
    assert_ok(ls_tensor_from_dlpack(&t, &m));
    assert_int_equal(ls_tensor_count(t), 0);
    ls_tensor_free(&t);
    assert_int_equal(deleted, 1);
    m = good(); /* strides of one element mean nothing */
    m.dl_tensor.shape = one;
    m.dl_tensor.strides = back;
    assert_ok(ls_tensor_from_dlpack(&t, &m));
    assert_true(ls_tensor_is_contiguous(t));
    ls_tensor_free(&t);
}

static void every_type(void **state)
{
    (void)state;
    static const struct {
        uint8_t code, bits;
        ls_dtype dtype;
    } known[] = {{2, 32, LS_F32}, {2, 16, LS_F16}, {4, 16, LS_BF16},
                 {0, 32, LS_I32}, {0, 64, LS_I64}, {1, 8, LS_U8}};
    int64_t eight[8] = {0};
    for (size_t i = 0; i < TEST_COUNT(known); i++) {
        DLManagedTensorVersioned m = good(), *back = NULL;
        ls_tensor *t = NULL;
        m.dl_tensor.data = eight;
        m.dl_tensor.byte_offset = 8;
        m.dl_tensor.dtype.code = known[i].code;
        m.dl_tensor.dtype.bits = known[i].bits;
        assert_ok(ls_tensor_from_dlpack(&t, &m));
        assert_int_equal(ls_tensor_dtype(t), known[i].dtype);
        assert_ok(ls_tensor_to_dlpack(t, &back));
        assert_int_equal(back->dl_tensor.dtype.code, known[i].code);
        assert_int_equal(back->dl_tensor.dtype.bits, known[i].bits);
        assert_int_equal(back->dl_tensor.dtype.lanes, 1);
        assert_ptr_equal(back->dl_tensor.data, eight + 1);
        back->deleter(back);
        ls_tensor_free(&t);
    }
}

static void assert_refused(DLManagedTensorVersioned m, ls_status status,
                           const char *part)
{
    ls_tensor *t = NULL;
    assert_error(ls_tensor_from_dlpack(&t, &m), status, part);
    assert_null(t);
    assert_int_equal(deleted, 0); /* it is still the caller's */
}

static void what_is_refused(void **state)
{
    (void)state;
    int64_t back[] = {-3, 1}, below[] = {2, -3};
    DLManagedTensorVersioned m = good();
    m.version.major = 2;
    assert_refused(m, LS_ERR_UNSUPPORTED, "DLPack version 2.3");
    m = good();
    m.dl_tensor.device.device_type = kDLCUDA;
    assert_refused(m, LS_ERR_UNSUPPORTED, "a device of type 2, not on the CPU");
    m = good();
    m.flags = LS_DLPACK_READ_ONLY | LS_DLPACK_IS_COPIED;
    assert_refused(m, LS_ERR_UNSUPPORTED, "read-only");
    m = good();
    m.dl_tensor.dtype.lanes = 4;
    assert_refused(m, LS_ERR_DTYPE, "32 bits and 4 lanes");
    m = good();
    m.dl_tensor.dtype.bits = 64;
    assert_refused(m, LS_ERR_DTYPE, "code 2, 64 bits");
    m = good();
    m.dl_tensor.byte_offset = 2;
    assert_refused(m, LS_ERR_ARGUMENT, "dtype f32 are not aligned to 4 bytes");
    m = good();
    m.dl_tensor.ndim = 7;
    assert_refused(m, LS_ERR_ARGUMENT,
                   "cannot have 7 dimensions; it must have 0 to 6");
    m = good();
    m.dl_tensor.ndim = -1;
    assert_refused(m, LS_ERR_ARGUMENT, "cannot have -1 dimensions");
    m = good();
    m.dl_tensor.shape = NULL;
    assert_refused(m, LS_ERR_ARGUMENT, "shape is NULL");
    m = good();
    m.dl_tensor.shape = below;
    assert_refused(m, LS_ERR_ARGUMENT, "negative");
    m = good();
    m.dl_tensor.strides = back;
    assert_refused(m, LS_ERR_ARGUMENT, "stride -3 of dimension 0");
    m = good();
    m.dl_tensor.data = NULL;
    assert_refused(m, LS_ERR_ARGUMENT, "data is NULL");
}

/* ---- out ----------------------------------------------------------------- */

static void tensors_that_are_lent(void **state)
{
    (void)state;
    ls_memory_stats before, after;
    ls_memory_total(&before);
    ls_tensor *t = NULL, *turned = NULL;
    DLManagedTensorVersioned *m = NULL;
    assert_ok(ls_tensor_zeros(&t, LS_F32, 2, shape));
    assert_ok(ls_tensor_transpose(t, 0, 1, &turned));
    assert_ok(ls_tensor_to_dlpack(turned, &m));
    assert_int_equal(m->version.major, 1);
    assert_true(m->flags == 0 && m->dl_tensor.byte_offset == 0);
    assert_int_equal(m->dl_tensor.device.device_type, kDLCPU);
    assert_ptr_equal(m->dl_tensor.data, tensor_data(t));
    assert_int_equal(m->dl_tensor.ndim, 2);
    assert_true(m->dl_tensor.shape[0] == 3 && m->dl_tensor.shape[1] == 2);
    assert_true(m->dl_tensor.strides[0] == 1 && m->dl_tensor.strides[1] == 3);
    ls_tensor_free(&turned);
    ls_tensor_free(&t); /* the other library has it still */
    ((float *)m->dl_tensor.data)[5] = 1;
    m->deleter(m);
    ls_memory_total(&after);
    assert_int_equal(after.live_bytes, before.live_bytes);
}

static void nothing_is_lent(void **state)
{
    (void)state;
    ls_tensor *t = NULL;
    DLManagedTensorVersioned *m = NULL;
    assert_ok(ls_tensor_zeros(&t, LS_I64, 2, (const int64_t[]){0, 2}));
    assert_ok(ls_tensor_to_dlpack(t, &m));
    assert_null(m->dl_tensor.data);
    m->deleter(m);
    ls_tensor_free(&t);
}

/* A tensor that goes to another library and back has the same memory. */
static void there_and_back(void **state)
{
    (void)state;
    ls_tensor *t = NULL, *same = NULL;
    DLManagedTensorVersioned *m = NULL;
    assert_ok(ls_tensor_zeros(&t, LS_F32, 2, shape));
    assert_ok(ls_tensor_to_dlpack(t, &m));
    assert_ok(ls_tensor_from_dlpack(&same, m));
    assert_ptr_equal(tensor_data(same), tensor_data(t));
    ls_tensor_free(&t);
    assert_ok(ls_tensor_fill(same, 3));
    ls_tensor_free(&same);
}

/* A layout of images becomes plain, and stays so. */
static void images_are_lent_in_order(void **state)
{
    (void)state;
    const int64_t image[] = {1, 16, 2, 2};
    ls_tensor *t = NULL;
    DLManagedTensorVersioned *m = NULL;
    assert_ok(ls_tensor_zeros(&t, LS_F32, 4, image));
    for (int i = 0; i < 64; i++)
        ((float *)tensor_data(t))[i] = (float)i;
    assert_ok(lsi_tensor_set_layout(t, LSI_LAYOUT_BLOCKED_16));
    assert_ok(ls_tensor_to_dlpack(t, &m));
    assert_ok(lsi_tensor_set_layout(t, LSI_LAYOUT_BLOCKED_16));
    for (int i = 0; i < 64; i++)
        assert_true(((float *)m->dl_tensor.data)[i] == (float)i);
    ls_tensor_free(&t);
    m->deleter(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_shared),
        cmocka_unit_test(strides_or_none),
        cmocka_unit_test(scalars_and_empty_arrays),
        cmocka_unit_test(every_type),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(tensors_that_are_lent),
        cmocka_unit_test(nothing_is_lent),
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(images_are_lent_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

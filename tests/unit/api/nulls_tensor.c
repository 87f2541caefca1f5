/* Tensors, and what needs no other object. */
#include <stdlib.h>
#include <unistd.h>

#include "unit/api/nulls.h"

static void nulls_of_open_files(const char *path)
{
    ls_safetensors *file = NULL, *other = NULL;
    ls_stored_tensor info = {0};
    ls_tensor *out = NULL;
    REFUSES(ls_safetensors_open, "out path", P(out, &other), P(path, path));
    assert_null(other);
    assert_ok(ls_safetensors_open(&file, path));
    REFUSES(ls_safetensors_info, "file out", P(file, file), 0, P(out, &info));
    REFUSES(ls_safetensors_read, "file out", P(file, file), 0, P(out, &out));
    assert_null(out);
    ls_safetensors_close(&file);
    ls_safetensors_close(&file);
}

static void nulls_of_files(ls_tensor *x)
{
    char path[] = "/tmp/lockstep-nulls-XXXXXX";
    const ls_named_tensor named = {"x", x};
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    REFUSES(ls_safetensors_save, "path tensors", P(path, path),
            P(tensors, &named), 1, NULL);
    TAKES(ls_safetensors_save, "metadata", path, &named, 1, NULL);
    REFUSES(ls_safetensors_load, "path tensors", P(path, path),
            P(tensors, &named), 1);
    nulls_of_open_files(path);
    assert_error(ls_safetensors_load(path, &(ls_named_tensor){"x", NULL}, 1),
                 LS_ERR_ARGUMENT, "NULL");
    assert_error(
        ls_safetensors_save(path, &(ls_named_tensor){NULL, x}, 1, NULL),
        LS_ERR_ARGUMENT, "NULL");
    unlink(path);
}

static void nulls_of_dlpack(ls_tensor *x)
{
    struct DLManagedTensorVersioned *managed = NULL;
    ls_tensor *out = NULL;
    REFUSES(ls_tensor_to_dlpack, "tensor out", P(tensor, x), P(out, &managed));
    assert_null(managed);
    assert_ok(ls_tensor_to_dlpack(x, &managed));
    REFUSES(ls_tensor_from_dlpack, "out managed", P(out, &out),
            P(managed, managed));
    assert_null(out);
    ((ls_dlpack *)managed)->deleter(managed);
}

void nulls_of_tensors(void **state)
{
    const int64_t shape[] = {2, 3}, one[] = {1};
    float data[6] = {0};
    double value = 0;
    void *memory = NULL;
    float *floats = NULL;
    int64_t *integers = NULL;
    ls_tensor *x = NULL, *whole = NULL, *scalar = NULL, *out = NULL;
    ls_tensor *wrapped = NULL;
    char text[100];
    size_t length = 0;
    ls_dtype dtype = LS_F32;
    ls_reduce_op op = LS_REDUCE_SUM;
    ls_ddp_strategy strategy = LS_DDP_FLAT;
    (void)state;
    assert_ok(ls_tensor_zeros(&x, LS_F32, 2, shape));
    assert_ok(ls_tensor_zeros(&whole, LS_I64, 2, shape));
    assert_ok(ls_tensor_zeros(&scalar, LS_F32, 1, one));
    REFUSES(ls_tensor_new, "out shape", P(out, &out), LS_F32, 2,
            P(shape, shape));
    REFUSES(ls_tensor_zeros, "out shape", P(out, &out), LS_F32, 2,
            P(shape, shape));
    REFUSES(ls_tensor_wrap, "out data shape", P(out, &out), P(data, data),
            LS_F32, 2, P(shape, shape), NULL);
    const ls_wrap_options options = {.strides = shape};
    TAKES(ls_tensor_wrap, "options", &wrapped, data, LS_F32, 2, shape,
          P(options, &options));
    ls_tensor_free(&wrapped);
    REFUSES(ls_tensor_clone, "tensor out", P(tensor, x), P(out, &out));
    REFUSES(ls_tensor_contiguous, "tensor out", P(tensor, x), P(out, &out));
    REFUSES(ls_tensor_format, "tensor text", P(tensor, x), P(text, text),
            sizeof text, NULL);
    TAKES(ls_tensor_format, "length", x, text, sizeof text, P(length, &length));
    REFUSES(ls_tensor_view, "tensor shape out", P(tensor, x), 2,
            P(shape, shape), P(out, &out));
    REFUSES(ls_tensor_narrow, "tensor out", P(tensor, x), 0, 0, 1,
            P(out, &out));
    REFUSES(ls_tensor_transpose, "tensor out", P(tensor, x), 0, 1,
            P(out, &out));
    REFUSES(ls_tensor_copy, "dst src", P(dst, x), P(src, x));
    REFUSES(ls_tensor_map, "tensor out", P(tensor, x), P(out, &memory));
    REFUSES(ls_tensor_map_f32, "tensor out", P(tensor, x), P(out, &floats));
    REFUSES(ls_tensor_map_i64, "tensor out", P(tensor, whole),
            P(out, &integers));
    REFUSES(ls_tensor_item, "tensor out", P(tensor, scalar), P(out, &value));
    REFUSES(ls_dtype_parse, "name out", P(name, "f32"), P(out, &dtype));
    REFUSES(ls_ddp_strategy_parse, "name out", P(name, "flat"),
            P(out, &strategy));
    REFUSES(ls_reduce_op_parse, "name out", P(name, "sum"), P(out, &op));
    assert_null(out);
    nulls_of_files(x);
    nulls_of_dlpack(x);

    ls_tensor *none = NULL;
    ls_tensor_free(&none);
    ls_tensor_free(&x);
    ls_tensor_free(&whole);
    ls_tensor_free(&scalar);
}

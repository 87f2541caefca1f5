/*
 * safetensors files: what is written reads back, files made by hand are read,
 * and malformed ones are errors that name the file and the tensor. Files whose
 * names are not known are listed.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/half.h"
#include "base/rng.h"
#include "model/tensor/tensor.h"
#include "testing.h"

static char folder[] = "/tmp/lockstep-safetensors-XXXXXX";
static char path[sizeof folder + 32];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

/* The last test: temporary files of the saves before, good and bad. */
static void no_other_file_is_left(void **state)
{
    (void)state;
    DIR *const entries = opendir(folder);
    assert_non_null(entries);
    for (const struct dirent *e; (e = readdir(entries)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            assert_string_equal(e->d_name, "a.safetensors");
    closedir(entries);
}

/* ---- files by hand ------------------------------------------------------- */

/* In place: some file systems sync a file that is truncated first. */
static void write_bytes(const void *data, size_t bytes)
{
    const int fd = open(path, O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, bytes, 0), bytes);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(close(fd), 0);
}

static size_t read_bytes(unsigned char *data, size_t capacity)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t bytes = fread(data, 1, capacity, file);
    fclose(file);
    return bytes;
}

/* A file with this header, a length that says so, and `data` bytes 0, 1, ... */
static void write_file(const char *header, size_t data)
{
    unsigned char bytes[4096];
    const uint64_t length = strlen(header);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data; i++)
        bytes[8 + length + i] = (unsigned char)i;
    write_bytes(bytes, 8 + length + data);
}

static ls_tensor *zeros(ls_dtype dtype, int ndim, const int64_t *shape)
{
    ls_tensor *tensor = NULL;
    assert_ok(ls_tensor_zeros(&tensor, dtype, ndim, shape));
    return tensor;
}

/* ---- round trips --------------------------------------------------------- */

static const ls_dtype dtypes[] = {LS_U8,  LS_F32, LS_BF16,
                                  LS_I64, LS_F16, LS_I32};

static void fill_counting(ls_tensor *tensor, int first)
{
    ls_tensor *from = zeros(LS_F32, tensor->ndim, tensor->shape);
    float *data = tensor_data(from);
    for (int64_t i = 0; i < from->count; i++)
        data[i] = (float)(first + i);
    assert_ok(ls_tensor_copy(tensor, from));
    ls_tensor_free(&from);
}

static void assert_counting(const ls_tensor *tensor, int first)
{
    ls_tensor *as_float = zeros(LS_F32, tensor->ndim, tensor->shape);
    assert_ok(ls_tensor_copy(as_float, tensor));
    const float *data = tensor_data(as_float);
    for (int64_t i = 0; i < as_float->count; i++)
        assert_true(data[i] == (float)(first + i));
    ls_tensor_free(&as_float);
}

static void every_type_reads_back(void **state)
{
    (void)state;
    static const char *const names[] = {"a",         "b", "weight \"q\"\n",
                                        "d\xc3\xa9", "",  "f"};
    const int64_t shapes[][3] = {{3, 1, 1}, {2, 3, 4}, {5, 1, 1},
                                 {1, 1, 1}, {0, 3, 1}, {7, 2, 1}};
    ls_named_tensor out[6], in[6];
    for (int i = 0; i < 6; i++) {
        out[i] = (ls_named_tensor){names[i], zeros(dtypes[i], 3, shapes[i])};
        in[5 - i] = (ls_named_tensor){names[i], zeros(dtypes[i], 3, shapes[i])};
        fill_counting(out[i].tensor, 10 * i);
    }
    const char *const metadata[] = {"format", "pt", "step", "7", NULL};
    assert_ok(ls_safetensors_save(path, out, 6, metadata));
    assert_ok(ls_safetensors_load(path, in, 6));
    for (int i = 0; i < 6; i++) {
        assert_counting(in[5 - i].tensor, 10 * i);
        ls_tensor_free(&out[i].tensor);
        ls_tensor_free(&in[5 - i].tensor);
    }
}

static void views_read_back(void **state)
{
    (void)state;
    ls_tensor *base = zeros(LS_F32, 2, (const int64_t[]){4, 3});
    ls_tensor *target = zeros(LS_F32, 2, (const int64_t[]){6, 4});
    ls_tensor *turned = NULL, *part = NULL;
    fill_counting(base, 0);
    assert_ok(ls_tensor_transpose(base, 0, 1, &turned));
    assert_ok(ls_tensor_narrow(target, 0, 2, 5, &part));
    assert_ok(
        ls_safetensors_save(path, &(ls_named_tensor){"t", turned}, 1, NULL));
    assert_ok(ls_safetensors_load(path, &(ls_named_tensor){"t", part}, 1));
    const float *got = tensor_data(target);
    for (int i = 0; i < 24; i++) {
        const int row = i / 4 - 2, column = i % 4;
        const bool inside = row >= 0 && row < 3;
        assert_true(got[i] == (inside ? (float)(3 * column + row) : 0.0F));
    }
    ls_tensor_free(&base);
    ls_tensor_free(&target);
    ls_tensor_free(&turned);
    ls_tensor_free(&part);
}

/* The bytes are those of the format, aligned, wide types first. */
static void bytes_are_as_specified(void **state)
{
    (void)state;
    ls_named_tensor out[2] = {{"b", zeros(LS_U8, 1, (const int64_t[]){3})},
                              {"a", zeros(LS_F32, 2, (const int64_t[]){1, 2})}};
    fill_counting(out[0].tensor, 1);
    fill_counting(out[1].tensor, 1);
    assert_ok(ls_safetensors_save(path, out, 2, NULL));
    unsigned char bytes[512];
    const size_t size = read_bytes(bytes, sizeof bytes);
    static const char header[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}";
    uint64_t length = 0;
    memcpy(&length, bytes, 8);
    assert_int_equal(length % 8, 0);
    assert_int_equal(size, 8 + length + 11);
    assert_memory_equal(bytes + 8, header, sizeof header - 1);
    for (uint64_t i = sizeof header - 1; i < length; i++)
        assert_int_equal(bytes[8 + i], ' ');
    const float floats[2] = {1, 2};
    assert_memory_equal(bytes + 8 + length, floats, 8);
    assert_memory_equal(bytes + 8 + length + 8, "\1\2\3", 3);
    ls_tensor_free(&out[0].tensor);
    ls_tensor_free(&out[1].tensor);
}

static void others_are_ignored(void **state)
{
    (void)state;
    write_file("{\"__metadata__\":{\"k\":\"v\"},"
               "\"x\":{\"dtype\":\"F64\",\"shape\":[1],"
               "\"data_offsets\":[0,8]},"
               "\"new\":{\"dtype\":\"F4_NEW\",\"shape\":[3,1,1,1,1,1,1],"
               "\"data_offsets\":[8,10]},"
               "\"y\":{\"shape\":[2],\"dtype\":\"U8\",\"extra\":[],"
               "\"data_offsets\":[10,12]}}",
               12);
    ls_tensor *y = zeros(LS_U8, 1, (const int64_t[]){2});
    assert_ok(ls_safetensors_load(path, &(ls_named_tensor){"y", y}, 1));
    assert_counting(y, 10);
    assert_ok(ls_safetensors_load(path, NULL, 0));
    ls_tensor_free(&y);
}

static void empty_files(void **state)
{
    (void)state;
    assert_ok(ls_safetensors_save(path, NULL, 0, NULL));
    assert_ok(ls_safetensors_load(path, NULL, 0));
    ls_tensor *y = zeros(LS_U8, 1, (const int64_t[]){2});
    assert_error(ls_safetensors_load(path, &(ls_named_tensor){"y", y}, 1),
                 LS_ERR_FORMAT, "no tensor 'y'");
    ls_tensor_free(&y);
}

/* ---- files whose names are not known ------------------------------------- */

static ls_stored_tensor info_of(const ls_safetensors *file, size_t index)
{
    ls_stored_tensor info = {.struct_size = sizeof info};
    assert_ok(ls_safetensors_info(file, index, &info));
    assert_int_equal(info.struct_size, sizeof info);
    return info;
}

/* Everything that was saved is found, and is the same. */
static void files_are_listed(void **state)
{
    (void)state;
    const char *const metadata[] = {"format", "pt", "made by", "a test", NULL};
    ls_tensor *a = zeros(LS_F32, 2, (const int64_t[]){2, 3});
    ls_tensor *b = zeros(LS_I64, 0, NULL), *read = NULL;
    const ls_named_tensor named[] = {{"a", a}, {"b", b}};
    ls_safetensors *file = NULL;
    fill_counting(a, 1);
    assert_ok(ls_tensor_fill(b, 77));
    assert_ok(ls_safetensors_save(path, named, 2, metadata));
    assert_ok(ls_safetensors_open(&file, path));
    assert_int_equal(ls_safetensors_count(file), 2);
    const char *const *found = ls_safetensors_metadata(file);
    for (int i = 0; i < 4; i++)
        assert_string_equal(found[i], metadata[i]);
    assert_null(found[4]);
    for (size_t i = 0; i < 2; i++) {
        const ls_stored_tensor info = info_of(file, i);
        const ls_tensor *saved = strcmp(info.name, "a") == 0 ? a : b;
        assert_string_equal(info.type, saved == a ? "F32" : "I64");
        assert_true(info.readable && info.dtype == saved->dtype);
        assert_int_equal(info.bytes, saved == a ? 24 : 8);
        assert_ok(ls_safetensors_read(file, i, &read));
        assert_true(lsi_shape_equal(read, saved));
        assert_memory_equal(tensor_data(read), tensor_data(saved), info.bytes);
        ls_tensor_free(&read);
    }
    ls_safetensors_close(&file);
    assert_null(file);
    ls_tensor_free(&a);
    ls_tensor_free(&b);
}

/* Types and dimensions that no tensor can have are listed, and not read. */
static void what_cannot_be_read_is_listed(void **state)
{
    (void)state;
    ls_safetensors *file = NULL;
    ls_tensor *read = NULL;
    write_file("{\"x\":{\"dtype\":\"F64\",\"shape\":[1],"
               "\"data_offsets\":[0,8]},"
               "\"new\":{\"dtype\":\"F4_NEW\",\"shape\":[3],"
               "\"data_offsets\":[8,10]},"
               "\"long\":{\"dtype\":\"U8\",\"shape\":[2,1,1,1,1,1,1],"
               "\"data_offsets\":[10,12]}}",
               12);
    assert_ok(ls_safetensors_open(&file, path));
    assert_int_equal(ls_safetensors_count(file), 3);
    assert_null(ls_safetensors_metadata(file)[0]);
    const char *const types[] = {"F64", "F4_NEW", "U8"};
    for (size_t i = 0; i < 3; i++) {
        const ls_stored_tensor info = info_of(file, i);
        assert_string_equal(info.type, types[i]);
        assert_false(info.readable);
        assert_int_equal(info.shape == NULL, info.ndim == 7);
    }
    assert_error(ls_safetensors_read(file, 0, &read), LS_ERR_DTYPE,
                 "tensor 'x' has type F64; supported types are F32");
    assert_error(ls_safetensors_read(file, 1, &read), LS_ERR_DTYPE, "F4_NEW");
    assert_error(ls_safetensors_read(file, 2, &read), LS_ERR_SHAPE,
                 "'long' has 7 dimensions; at most 6 are supported");
    assert_error(ls_safetensors_read(file, 3, &read), LS_ERR_ARGUMENT,
                 "has no tensor number 3 (tensors: 3)");
    assert_null(read);
    ls_safetensors_close(&file);
}

/* The struct of an older or a newer program, and of one that set no size. */
static void sizes_of_the_description(void **state)
{
    (void)state;
    struct {
        ls_stored_tensor known;
        uint64_t newer[2];
    } info = {.known.struct_size = sizeof info, .newer = {7, 7}};
    ls_safetensors *file = NULL;
    write_file("{\"y\":{\"dtype\":\"U8\",\"shape\":[2],"
               "\"data_offsets\":[0,2]}}",
               2);
    assert_ok(ls_safetensors_open(&file, path));
    assert_ok(ls_safetensors_info(file, 0, &info.known));
    assert_int_equal(info.newer[0] + info.newer[1], 0);
    info.known.struct_size = 3;
    assert_error(ls_safetensors_info(file, 0, &info.known), LS_ERR_ARGUMENT,
                 "ls_stored_tensor.struct_size is 3");
    ls_safetensors_close(&file);
}

static void files_that_do_not_open(void **state)
{
    (void)state;
    ls_safetensors *file = NULL;
    write_file("{\"y\":{\"dtype\":\"U8\",\"shape\":[2],"
               "\"data_offsets\":[0,3]}}",
               3);
    assert_error(ls_safetensors_open(&file, path), LS_ERR_FORMAT, "'y'");
    assert_error(ls_safetensors_open(&file, "/nonexistent/a"), LS_ERR_IO,
                 "'/nonexistent/a'");
    assert_null(file);
}

/* ---- malformed files ----------------------------------------------------- */

#define U8(shape, offsets)                                                     \
    "{\"dtype\":\"U8\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void malformed_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header, *part;
    } cases[] = {
        {"[]", "begin with {"},
        {"{\"a\":", "JSON"},
        {"{\"a\":1}", "no dtype"},
        {"{\"a\":{\"dtype\":5}}", "no dtype"},
        {"{\"a\":{\"dtype\":\"U8\"}}", "no shape"},
        {"{\"a\":" U8("[-1]", "[0,4]") "}", "extent"},
        {"{\"a\":" U8("[1.5]", "[0,4]") "}", "extent"},
        {"{\"a\":" U8("[4294967296,4294967296,4]", "[0,4]") "}",
         "too many elements"},
        {"{\"a\":" U8("[4]", "[0]") "}", "data_offsets"},
        {"{\"a\":" U8("[4]", "[0,4,5]") "}", "data_offsets"},
        {"{\"a\":" U8("[4]", "[4,0]") "}", "data_offsets"},
        {"{\"a\":" U8("[4]", "[-4,0]") "}", "data_offsets"},
        {"{\"a\":" U8("[4]", "{}") "}", "data_offsets"},
        {"{\"a\":" U8("[5]", "[0,5]") "}", "truncated"},
        {"{\"a\":" U8("[3]", "[0,4]") "}", "do not fit"},
        {"{\"a\":" U8("[2]", "[0,2]") "}", "2 bytes at its end"},
        {"{\"a\":" U8("[2]", "[2,4]") "}", "unused bytes before"},
        {"{\"a\":" U8("[3]", "[0,3]") ",\"b\":" U8("[2]", "[2,4]") "}",
         "'a' and 'b' overlap"},
        {"{\"a\":" U8("[4]", "[0,4]") ",\"a\":" U8("[4]", "[0,4]") "}", "JSON"},
        {"{\"__metadata__\":[],\"a\":" U8("[4]", "[0,4]") "}",
         "not a JSON object"},
        {"{\"__metadata__\":{\"k\":1},\"a\":" U8("[4]", "[0,4]") "}",
         "'k' is not a string"},
        {"{\"a\":" U8("[4]", "[0,99999999999999999999]") "}", "JSON"},
    };
    ls_tensor *a = zeros(LS_U8, 1, (const int64_t[]){4});
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        write_file(cases[i].header, 4);
        const ls_named_tensor wanted = {"a", a};
        assert_error(ls_safetensors_load(path, &wanted, 1), LS_ERR_FORMAT,
                     cases[i].part);
        assert_non_null(strstr(ls_last_error(), path));
    }
    assert_int_equal(*(const unsigned char *)tensor_data(a), 0);
    ls_tensor_free(&a);
}

static void bad_lengths(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {
        0, 1, 43, UINT64_C(100000001), UINT64_C(1) << 40, UINT64_MAX};
    unsigned char bytes[50] = {0};
    for (size_t i = 0; i < TEST_COUNT(lengths); i++) {
        memcpy(bytes, &lengths[i], 8);
        bytes[8] = '{';
        bytes[9] = '}';
        write_bytes(bytes, sizeof bytes);
        assert_error(ls_safetensors_load(path, NULL, 0), LS_ERR_FORMAT,
                     "according to its first 8 bytes the header has ");
    }
    write_bytes(bytes, 7);
    assert_error(ls_safetensors_load(path, NULL, 0), LS_ERR_FORMAT, "7 bytes");
}

static void other_files_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *part;
    } files[] = {
        {"Once upon a time", "is text, not a safetensors file"},
        {"a", "is text, not"},
        {"{\"a\": 1}",
         "is JSON, not a safetensors file; the index of a "
         "model in several files is named model.safetensors.index.json"},
        {"PK\x03\x04zipped",
         "is a zip archive, not a safetensors file; convert "
         "PyTorch weights (.pt, .bin) with safetensors.torch.save_file"},
        {"\x80\x02}q\1X\2x", "is a Python pickle, not"},
        {"GGUF\3xxxx", "is a GGUF file, not"},
        {"version https://git-lfs.github.com/spec/v1\n",
         "is a Git LFS pointer, not a safetensors file; run `git lfs pull`"},
        {"\x89HDF\r\n\x1a\n", "is an HDF5 file, not"},
        {"\1\2", "it has only 2 bytes"},
        {"", "it has only 0 bytes"},
    };
    for (size_t i = 0; i < TEST_COUNT(files); i++) {
        write_bytes(files[i].bytes, strlen(files[i].bytes));
        assert_error(ls_safetensors_load(path, NULL, 0), LS_ERR_FORMAT,
                     files[i].part);
        assert_non_null(strstr(ls_last_error(), path));
    }
}

static void every_truncation_is_an_error(void **state)
{
    (void)state;
    unsigned char bytes[512];
    ls_tensor *a = zeros(LS_F32, 2, (const int64_t[]){2, 3});
    const ls_named_tensor named = {"a", a};
    fill_counting(a, 1);
    assert_ok(ls_safetensors_save(path, &named, 1, NULL));
    const size_t size = read_bytes(bytes, sizeof bytes);
    for (size_t n = 0; n < size; n++) {
        write_bytes(bytes, n);
        assert_error(ls_safetensors_load(path, &named, 1), LS_ERR_FORMAT, path);
    }
    assert_counting(a, 1);
    ls_tensor_free(&a);
}

/* Whatever happens to single bytes: an error or a success, never harm. */
static void mutated_bytes(void **state)
{
    (void)state;
    unsigned char bytes[512], changed[512];
    ls_named_tensor named[2] = {
        {"a", zeros(LS_F32, 2, (const int64_t[]){2, 3})},
        {"b", zeros(LS_U8, 1, (const int64_t[]){5})}};
    const char *const metadata[] = {"key", "value", NULL};
    assert_ok(ls_safetensors_save(path, named, 2, metadata));
    const size_t size = read_bytes(bytes, sizeof bytes);
    const lsi_rng_key key = {.seed = 5, .stream = 1};
    uint64_t draw = 0;
    size_t failures = 0;
    for (int round = 0; round < 3000; round++) {
        memcpy(changed, bytes, size);
        const uint64_t hits = 1 + lsi_rng_below(key, 0, draw++, 3);
        for (uint64_t h = 0; h < hits; h++) {
            const uint64_t at = lsi_rng_below(key, 0, draw++, size);
            changed[at] = (unsigned char)lsi_rng_below(key, 0, draw++, 256);
        }
        write_bytes(changed, size);
        failures += ls_safetensors_load(path, named, 2) != LS_OK;
    }
    assert_in_range(failures, 1000, 2999);
    ls_tensor_free(&named[0].tensor);
    ls_tensor_free(&named[1].tensor);
}

/* ---- wishes that do not fit ---------------------------------------------- */

static void wrong_wishes(void **state)
{
    (void)state;
    ls_tensor *a = zeros(LS_F32, 2, (const int64_t[]){2, 3});
    ls_tensor *turned = zeros(LS_F32, 2, (const int64_t[]){3, 2});
    ls_tensor *half = zeros(LS_F16, 2, (const int64_t[]){2, 3});
    fill_counting(a, 1);
    assert_ok(ls_safetensors_save(path, &(ls_named_tensor){"a", a}, 1, NULL));
    assert_ok(ls_tensor_fill(a, 0.0));
    assert_error(ls_safetensors_load(path, &(ls_named_tensor){"a", turned}, 1),
                 LS_ERR_SHAPE, "'a' has shape (2, 3), expected (3, 2)");
    assert_error(ls_safetensors_load(path, &(ls_named_tensor){"a", half}, 1),
                 LS_ERR_DTYPE, "F32, expected F16");
    /* The first fits, the second does not: neither is written. */
    const ls_named_tensor both[] = {{"a", a}, {"a", half}};
    assert_error(ls_safetensors_load(path, both, 2), LS_ERR_DTYPE, "'a'");
    assert_true(*(const float *)tensor_data(a) == 0.0F);
    assert_error(ls_safetensors_load(path, &(ls_named_tensor){NULL, a}, 1),
                 LS_ERR_ARGUMENT, "NULL");
    ls_tensor_free(&a);
    ls_tensor_free(&turned);
    ls_tensor_free(&half);
}

static void bad_paths(void **state)
{
    (void)state;
    char other[sizeof path + 16];
    snprintf(other, sizeof other, "%s/none/a", folder);
    assert_error(ls_safetensors_load(other, NULL, 0), LS_ERR_IO, other);
    assert_int_not_equal(access(folder, F_OK) == 0 && access(other, F_OK) == 0,
                         1); /* a reader makes no folder */
    assert_ok(ls_safetensors_save(other, NULL, 0, NULL));
    assert_int_equal(unlink(other), 0);
    snprintf(other, sizeof other, "%s/none", folder);
    assert_int_equal(rmdir(other), 0);
    assert_error(ls_safetensors_save("/proc/none/a", NULL, 0, NULL), LS_ERR_IO,
                 "cannot write '/proc/none/a'");
    assert_error(ls_safetensors_load(folder, NULL, 0), LS_ERR_IO, "regular");
    assert_error(ls_safetensors_load("/dev/zero", NULL, 0), LS_ERR_IO,
                 "is a device, not a regular file");
    snprintf(other, sizeof other, "%s/fifo", folder);
    assert_int_equal(mkfifo(other, 0600), 0);
    assert_error(ls_safetensors_load(other, NULL, 0), LS_ERR_IO,
                 "is a FIFO, not a regular file");
    unlink(other);
    assert_error(ls_safetensors_save(folder, NULL, 0, NULL), LS_ERR_IO,
                 "regular");
    assert_error(ls_safetensors_save("/dev/null", NULL, 0, NULL), LS_ERR_IO,
                 "regular");
    assert_error(ls_safetensors_save(NULL, NULL, 0, NULL), LS_ERR_ARGUMENT,
                 "NULL");
    assert_error(ls_safetensors_load(NULL, NULL, 0), LS_ERR_ARGUMENT, "NULL");
}

/* A save that fails leaves the old file and no other. */
static void failed_saves_change_nothing(void **state)
{
    (void)state;
    ls_tensor *a = zeros(LS_U8, 1, (const int64_t[]){3});
    const ls_named_tensor twice[] = {{"a", a}, {"a", a}};
    const ls_named_tensor reserved = {"__metadata__", a};
    const ls_named_tensor no_text = {"\xff", a};
    fill_counting(a, 1);
    assert_ok(ls_safetensors_save(path, twice, 1, NULL));
    assert_error(ls_safetensors_save(path, twice, 2, NULL), LS_ERR_ARGUMENT,
                 "two tensors have the name 'a'");
    assert_error(ls_safetensors_save(path, &reserved, 1, NULL), LS_ERR_ARGUMENT,
                 "__metadata__");
    assert_error(ls_safetensors_save(path, &no_text, 1, NULL), LS_ERR_ARGUMENT,
                 "UTF-8");
    assert_error(
        ls_safetensors_save(path, NULL, 0, (const char *const[]){"k", NULL}),
        LS_ERR_ARGUMENT, "'k' has no value");
    assert_ok(ls_tensor_fill(a, 0.0));
    assert_ok(ls_safetensors_load(path, twice, 1));
    assert_counting(a, 1);
    ls_tensor_free(&a);
}

/* A disk that is full: the old file stays, and no other file (the folder
 * can be removed at the end). */
static void full_disks_change_nothing(void **state)
{
    (void)state;
    struct rlimit before;
    ls_tensor *a = zeros(LS_U8, 1, (const int64_t[]){1 << 16});
    const ls_named_tensor named = {"a", a};
    assert_ok(ls_safetensors_save(path, NULL, 0, NULL));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 1 << 12,
                                 .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const ls_status status = ls_safetensors_save(path, &named, 1, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, LS_ERR_IO);
    assert_ok(ls_safetensors_load(path, NULL, 0));
    ls_tensor_free(&a);
}

/* A symbolic link stays one; the file that it names is replaced. */
static void links_are_followed(void **state)
{
    (void)state;
    char link[sizeof path + 8];
    struct stat info;
    snprintf(link, sizeof link, "%s.link", path);
    assert_ok(ls_safetensors_save(path, NULL, 0, NULL));
    assert_int_equal(symlink(path, link), 0);
    ls_tensor *a = zeros(LS_U8, 1, (const int64_t[]){3});
    const ls_named_tensor named = {"a", a};
    assert_ok(ls_safetensors_save(link, &named, 1, NULL));
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_ok(ls_safetensors_load(path, &named, 1));
    assert_int_equal(unlink(link), 0);
    ls_tensor_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_reads_back),
        cmocka_unit_test(views_read_back),
        cmocka_unit_test(bytes_are_as_specified),
        cmocka_unit_test(others_are_ignored),
        cmocka_unit_test(empty_files),
        cmocka_unit_test(files_are_listed),
        cmocka_unit_test(what_cannot_be_read_is_listed),
        cmocka_unit_test(sizes_of_the_description),
        cmocka_unit_test(files_that_do_not_open),
        cmocka_unit_test(malformed_headers),
        cmocka_unit_test(bad_lengths),
        cmocka_unit_test(other_files_are_named),
        cmocka_unit_test(every_truncation_is_an_error),
        cmocka_unit_test(mutated_bytes),
        cmocka_unit_test(wrong_wishes),
        cmocka_unit_test(bad_paths),
        cmocka_unit_test(failed_saves_change_nothing),
        cmocka_unit_test(full_disks_change_nothing),
        cmocka_unit_test(links_are_followed),
        cmocka_unit_test(no_other_file_is_left),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

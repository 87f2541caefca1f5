/*
 * Tensors of files in pieces: element by element what the order of the file and
 * that of memory imply, for parts and for tensors of several pieces.
 */
#include <stdlib.h>
#include <unistd.h>

#include "model/tensor/safetensors.h"
#include "model/tensor/tensor.h"
#include "testing.h"

enum { HEADS = 3, PAIRS = 200, COLUMNS = 1001, ROWS = HEADS * PAIRS * 2 };
enum { COUNT = ROWS * COLUMNS, MOST = 5 << 20 };

static char path[] = "/tmp/lockstep-pieces-XXXXXX";

static int make_path(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

/* Exact in every type. */
static float value_at(size_t place)
{
    return (float)(place % 251);
}

/* A file with element i of that value; the shape has COUNT elements. */
static void write_values(ls_dtype dtype, int64_t rows, int64_t columns)
{
    ls_tensor *values = NULL, *stored = NULL;
    const int64_t shape[] = {rows, columns};
    void *data = NULL;
    assert_ok(ls_tensor_new(&values, LS_F32, 2, shape));
    assert_ok(ls_tensor_new(&stored, dtype, 2, shape));
    assert_ok(ls_tensor_map(values, &data));
    for (size_t i = 0; i < COUNT; i++)
        ((float *)data)[i] = value_at(i);
    assert_ok(ls_tensor_copy(stored, values));
    const ls_named_tensor named = {"a", stored};
    assert_ok(ls_safetensors_save(path, &named, 1, NULL));
    ls_tensor_free(&stored);
    ls_tensor_free(&values);
}

typedef struct seen {
    size_t (*place)(size_t element); /* in the file */
    lsi_range needed;
    size_t at, pieces;
} seen;

/* Pieces follow each other, and cover what is needed. */
static ls_status look(void *context, lsi_range elements, const void *values)
{
    seen *const s = context;
    const float *const has = values;
    if (s->pieces++ == 0)
        assert_true(elements.begin <= s->needed.begin);
    else
        assert_int_equal(elements.begin, s->at);
    assert_true(elements.begin < elements.end && elements.end <= COUNT);
    assert_true(lsi_range_size(elements) * sizeof(float) <= MOST);
    for (size_t i = elements.begin; i < elements.end; i++)
        assert_true(has[i - elements.begin] == value_at(s->place(i)));
    s->at = elements.end;
    return LS_OK;
}

static void check_all(ls_tensor *view, size_t (*place)(size_t element))
{
    static const lsi_range needs[] = {
        {0, COUNT}, {COLUMNS + 5, 3 * COLUMNS}, {COUNT - 1, COUNT}, {7, 7}};
    lsi_safetensors_file file;
    assert_ok(lsi_safetensors_open(&file, path));
    file.widens = file.matrices = true;
    const ls_named_tensor wanted = {"a", view};
    assert_ok(lsi_safetensors_check(&file, &wanted, 1));
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        seen s = {.place = place, .needed = needs[i], .at = needs[i].end};
        assert_ok(lsi_safetensors_pieces(&file, &wanted, needs[i], look, &s));
        assert_true(s.at >= needs[i].end);
        assert_int_equal(s.pieces > 0, lsi_range_size(needs[i]) > 0);
        assert_true(i > 0 || s.pieces > 1);
    }
    lsi_safetensors_close(&file);
}

static ls_tensor *weights(void)
{
    ls_tensor *out = NULL;
    assert_ok(ls_tensor_new(&out, LS_F32, 2, (int64_t[]){ROWS, COLUMNS}));
    return out;
}

static size_t same(size_t element)
{
    return element;
}

static void in_the_order_of_the_file(void **state)
{
    (void)state;
    ls_tensor *a = weights();
    for (ls_dtype dtype = LS_F32; dtype <= LS_F16; dtype++) {
        if (dtype != LS_F32 && dtype != LS_BF16 && dtype != LS_F16)
            continue;
        write_values(dtype, ROWS, COLUMNS);
        check_all(a, same);
    }
    ls_tensor_free(&a);
}

static size_t transposed(size_t element)
{
    return element % COLUMNS * ROWS + element / COLUMNS;
}

static void of_transposed_matrices(void **state)
{
    (void)state;
    ls_tensor *a = weights(), *view = NULL;
    assert_ok(ls_tensor_transpose(a, 0, 1, &view));
    write_values(LS_F32, COLUMNS, ROWS);
    check_all(view, transposed);
    write_values(LS_BF16, COLUMNS, ROWS);
    check_all(view, transposed);
    ls_tensor_free(&view);
    ls_tensor_free(&a);
}

/* Row 2k + i of a head is row i * PAIRS + k of it in the file. */
static size_t paired(size_t element)
{
    const size_t row = element / COLUMNS, in = row % (2 * PAIRS);
    return (row - in + in % 2 * PAIRS + in / 2) * COLUMNS + element % COLUMNS;
}

static void of_pairs_of_rows(void **state)
{
    (void)state;
    ls_tensor *a = weights(), *together = NULL, *view = NULL;
    assert_ok(
        ls_tensor_view(a, 4, (int64_t[]){HEADS, PAIRS, 2, COLUMNS}, &together));
    assert_ok(ls_tensor_transpose(together, 1, 2, &view));
    write_values(LS_F32, ROWS, COLUMNS);
    check_all(view, paired);
    ls_tensor_free(&view);
    ls_tensor_free(&together);
    ls_tensor_free(&a);
}

static ls_status refuse(void *context, lsi_range elements, const void *values)
{
    int *const calls = context;
    (void)elements, (void)values;
    ++*calls;
    return LS_ERR_IO;
}

static void an_error_ends_it(void **state)
{
    (void)state;
    ls_tensor *a = weights();
    lsi_safetensors_file file;
    int calls = 0;
    write_values(LS_F32, ROWS, COLUMNS);
    assert_ok(lsi_safetensors_open(&file, path));
    const ls_named_tensor wanted = {"a", a};
    assert_int_equal(lsi_safetensors_pieces(
                         &file, &wanted, (lsi_range){0, COUNT}, refuse, &calls),
                     LS_ERR_IO);
    assert_int_equal(calls, 1);
    assert_int_equal(truncate(path, 1 << 20), 0);
    assert_error(lsi_safetensors_pieces(&file, &wanted, (lsi_range){0, COUNT},
                                        refuse, &calls),
                 LS_ERR_IO, "became shorter");
    assert_int_equal(calls, 1);
    lsi_safetensors_close(&file);
    ls_tensor_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_the_order_of_the_file),
        cmocka_unit_test(of_transposed_matrices),
        cmocka_unit_test(of_pairs_of_rows),
        cmocka_unit_test(an_error_ends_it),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}

/*
 * Names of statuses, types and reductions, and the version.
 */
#include <stdio.h>

#include "base/lists.h"
#include "lockstep/types.h"
#include "lockstep/version.h"
#include "testing.h"

static void statuses(void **state)
{
    (void)state;
    assert_string_equal(ls_status_name(LS_OK), "LS_OK");
    assert_string_equal(ls_status_name(LS_ERR_SHAPE), "LS_ERR_SHAPE");
    assert_string_equal(ls_status_text(LS_ERR_SHAPE), "shapes do not match");
    assert_string_equal(ls_status_name((ls_status)-999), "LS_UNKNOWN");
    assert_string_equal(ls_status_text((ls_status)77), "unknown status");
#define X(name, value, text)                                                   \
    assert_int_equal(LS_##name, value);                                        \
    assert_string_equal(ls_status_name((ls_status)(value)), "LS_" #name);
    LSI_STATUS_LIST(X)
#undef X
}

static void types(void **state)
{
    (void)state;
    static const size_t sizes[] = {4, 8, 2, 2, 1, 1, 4, 8, 1};
    static const char *const names[] = {"f32", "f64", "f16", "bf16", "i8",
                                        "u8",  "i32", "i64", "bool"};
    assert_int_equal(TEST_COUNT(sizes), LS_DTYPE_COUNT);
    for (int i = 0; i < LS_DTYPE_COUNT; i++) {
        ls_dtype parsed = (ls_dtype)-1;
        assert_int_equal(ls_dtype_size((ls_dtype)i), sizes[i]);
        assert_string_equal(ls_dtype_name((ls_dtype)i), names[i]);
        assert_ok(ls_dtype_parse(names[i], &parsed));
        assert_int_equal(parsed, i);
    }
    assert_int_equal(ls_dtype_size((ls_dtype)LS_DTYPE_COUNT), 0);
    assert_string_equal(ls_dtype_name((ls_dtype)-1), "unknown");
}

static void names_of_other_libraries(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        ls_dtype want;
    } cases[] = {{"float32", LS_F32},   {"fp32", LS_F32},  {"float", LS_F32},
                 {"float64", LS_F64},   {"fp64", LS_F64},  {"double", LS_F64},
                 {"float16", LS_F16},   {"fp16", LS_F16},  {"half", LS_F16},
                 {"bfloat16", LS_BF16}, {"int8", LS_I8},   {"uint8", LS_U8},
                 {"int32", LS_I32},     {"int64", LS_I64}, {"int", LS_I32}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        ls_dtype parsed = LS_BOOL;
        assert_ok(ls_dtype_parse(cases[i].name, &parsed));
        assert_int_equal(parsed, cases[i].want);
    }
}

static void reductions(void **state)
{
    (void)state;
    static const char *const names[] = {"sum",  "avg",  "min", "max",
                                        "prod", "band", "bor", "bxor"};
    assert_int_equal(TEST_COUNT(names), LS_REDUCE_OP_COUNT);
    for (int i = 0; i < LS_REDUCE_OP_COUNT; i++) {
        ls_reduce_op parsed = (ls_reduce_op)-1;
        assert_string_equal(ls_reduce_op_name((ls_reduce_op)i), names[i]);
        assert_ok(ls_reduce_op_parse(names[i], &parsed));
        assert_int_equal(parsed, i);
    }
    assert_string_equal(ls_reduce_op_name((ls_reduce_op)50), "unknown");
}

static void unknown_names(void **state)
{
    (void)state;
    ls_dtype dtype = LS_BF16;
    assert_error(ls_dtype_parse("F32", &dtype), LS_ERR_ARGUMENT,
                 "'F32'; choose one of: f32 f64 f16 bf16 i8 u8 i32 i64");
    assert_error(ls_dtype_parse("", &dtype), LS_ERR_ARGUMENT, "''");
    assert_error(ls_dtype_parse(NULL, &dtype), LS_ERR_ARGUMENT, "NULL");
    assert_error(ls_dtype_parse("f32", NULL), LS_ERR_ARGUMENT, "NULL");
    assert_int_equal(dtype, LS_BF16);
    ls_reduce_op op = LS_REDUCE_MAX;
    assert_error(ls_reduce_op_parse("mean", &op), LS_ERR_ARGUMENT,
                 "'mean'; choose one of: sum avg min max prod");
    assert_error(ls_reduce_op_parse(NULL, &op), LS_ERR_ARGUMENT, "NULL");
    assert_int_equal(op, LS_REDUCE_MAX);
}

static void version(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof(text), "%d.%d.%d", LS_VERSION_MAJOR, LS_VERSION_MINOR,
             LS_VERSION_PATCH);
    assert_string_equal(LS_VERSION_STRING, text);
    assert_string_equal(ls_version_string(), text);
    assert_int_equal(ls_version_number(), LS_VERSION_NUMBER);
    assert_string_equal(PROJECT_VERSION_TEXT, text);
}

#if !LS_VERSION_AT_LEAST(0, 1, 0)
#    error "the headers are of no version before 0.1.0"
#endif

static void version_at_least(void **state)
{
    const int major = LS_VERSION_MAJOR, minor = LS_VERSION_MINOR,
              patch = LS_VERSION_PATCH;
    (void)state;
    assert_true(LS_VERSION_AT_LEAST(major, minor, patch));
    assert_true(LS_VERSION_AT_LEAST(major, minor - 1, 99));
    assert_false(LS_VERSION_AT_LEAST(major, minor, patch + 1));
    assert_false(LS_VERSION_AT_LEAST(major, minor + 1, 0));
    assert_false(LS_VERSION_AT_LEAST(major + 1, 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses),
        cmocka_unit_test(types),
        cmocka_unit_test(names_of_other_libraries),
        cmocka_unit_test(reductions),
        cmocka_unit_test(unknown_names),
        cmocka_unit_test(version),
        cmocka_unit_test(version_at_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

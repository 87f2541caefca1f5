/*
 * Every operation of ops.def against double-precision loops and central
 * differences. A row of ops.def that has no case fails the test.
 */
#include "gradcheck.h"

static const struct {
    const gradcheck_case *cases;
    const size_t *count;
} families[] = {{gradcheck_elementwise, &gradcheck_elementwise_count},
                {gradcheck_images, &gradcheck_images_count},
                {gradcheck_layers, &gradcheck_layers_count},
                {gradcheck_shapes, &gradcheck_shapes_count},
                {gradcheck_attention, &gradcheck_attention_count},
                {gradcheck_transformer, &gradcheck_transformer_count}};

static void every_case(void **state)
{
    (void)state;
    for (size_t f = 0; f < TEST_COUNT(families); f++) {
        for (size_t i = 0; i < *families[f].count; i++)
            gradcheck_run(&families[f].cases[i]);
    }
}

static bool has_case(const char *op)
{
    for (size_t f = 0; f < TEST_COUNT(families); f++) {
        for (size_t i = 0; i < *families[f].count; i++) {
            if (strcmp(families[f].cases[i].op, op) == 0)
                return true;
        }
    }
    return false;
}

static bool is_op(const char *name)
{
    for (size_t i = 0; i < lsi_ops_count; i++) {
        if (strcmp(lsi_ops[i]->name, name) == 0)
            return true;
    }
    return false;
}

static void every_row_has_a_case(void **state)
{
    (void)state;
    static const char *const rows[] = {
#define X(name, ...) #name,
#include "model/autograd/ops/ops.def"
#undef X
    };
    assert_int_equal(lsi_ops_count, TEST_COUNT(rows));
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        assert_string_equal(lsi_ops[i]->name, rows[i]);
        if (!has_case(rows[i]))
            fail_msg("no case checks '%s' of ops.def or functions.h", rows[i]);
    }
}

static void every_case_has_a_row(void **state)
{
    (void)state;
    for (size_t f = 0; f < TEST_COUNT(families); f++) {
        for (size_t i = 0; i < *families[f].count; i++)
            assert_true(is_op(families[f].cases[i].op));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case),
        cmocka_unit_test(every_row_has_a_case),
        cmocka_unit_test(every_case_has_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The bits that a process asks for, by a call or by its environment. */
#include <stdlib.h>

#include "base/bits.h"
#include "testing.h"

/* First: what the environment asked for is read once. */
static void environment(void **state)
{
    (void)state;
    setenv("LOCKSTEP_BITS", "exact", 1);
    assert_error(lsi_bits_check(), LS_ERR_ARGUMENT,
                 "LOCKSTEP_BITS: 'exact' names no bits; there are 'fast' and "
                 "'portable'");
    setenv("LOCKSTEP_BITS", "portable", 1);
    assert_ok(lsi_bits_check());
    assert_true(lsi_bits_are_portable());
    unsetenv("LOCKSTEP_BITS");
    assert_true(lsi_bits_are_portable());
}

static void call(void **state)
{
    ls_bits bits = LS_BITS_FAST;
    (void)state;
    assert_ok(lsi_bits_parse("portable", &bits));
    assert_int_equal(bits, LS_BITS_PORTABLE);
    assert_string_equal(lsi_bits_name(bits), "portable");
    assert_ok(ls_set_bits(LS_BITS_FAST));
    assert_false(lsi_bits_are_portable());
    setenv("LOCKSTEP_BITS", "exact", 1);
    assert_ok(lsi_bits_check());
    assert_false(lsi_bits_are_portable());
    unsetenv("LOCKSTEP_BITS");
    assert_error(ls_set_bits((ls_bits)2), LS_ERR_ARGUMENT, "bits is 2");
    assert_int_equal(ls_bits_in_use(), LS_BITS_FAST);
    assert_ok(ls_set_bits(LS_BITS_PORTABLE));
    assert_int_equal(ls_bits_in_use(), LS_BITS_PORTABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment),
        cmocka_unit_test(call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Every signal has a name, those without one of the C library among them.
 */
#include <signal.h>

#include "base/signal_name.h"
#include "testing.h"

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(lsi_signal_name(SIGKILL).text, "SIGKILL");
    assert_string_equal(lsi_signal_name(SIGUSR1).text, "SIGUSR1");
    assert_string_equal(lsi_signal_name(SIGRTMIN).text, "SIGRTMIN");
    assert_string_equal(lsi_signal_name(SIGRTMIN + 3).text, "SIGRTMIN+3");
    assert_string_equal(lsi_signal_name(SIGRTMIN - 1).text, "SIG33");
    assert_string_equal(lsi_signal_name(0).text, "SIG0");
    assert_string_equal(lsi_signal_name(-2147483647).text, "SIG-2147483647");
    for (int i = 1; i < NSIG; i++)
        assert_null(strstr(lsi_signal_name(i).text, "null"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

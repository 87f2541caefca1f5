/*
 * The forms of NCCL_SOCKET_IFNAME, and the route.
 */
#include "testing.h"

#include "comm/rendezvous/interface.h"
#include "lockstep/lockstep.h"

static void test_forms(void **state)
{
    (void)state;
    const struct {
        const char *list, *name;
        bool matches;
    } rows[] = {
        {"eth", "eth0", true},         {"eth", "ethX", true},
        {"eth", "xeth0", false},       {"eth,ib", "ib1", true},
        {"eth,ib", "lo", false},       {"=eth0", "eth0", true},
        {"=eth0", "eth01", false},     {"=eth,ib0", "ib0", true},
        {"^docker", "docker0", false}, {"^docker", "eth0", true},
        {"^docker,lo", "lo", false},   {"^=eth0", "eth0", false},
        {"^=eth0", "eth01", true},     {"eth0,", "lo", false},
        {",", "eth0", false},          {"^", "eth0", true},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        if (lsi_interface_matches(rows[i].list, rows[i].name) !=
            rows[i].matches)
            fail_msg("\"%s\" and %s", rows[i].list, rows[i].name);
    }
}

static void test_route(void **state)
{
    (void)state;
    lsi_interface chosen;
    assert_ok(lsi_interface_choose(NULL, "127.0.0.1:1", &chosen));
    assert_string_equal(chosen.name, "lo");
    assert_string_equal(chosen.address, "127.0.0.1");
    assert_ok(lsi_interface_choose("=lo", "127.0.0.1:1", &chosen));
    assert_string_equal(chosen.name, "lo");
    assert_string_equal(chosen.why, "LOCKSTEP_INTERFACE");
    assert_error(lsi_interface_choose("=nosuch", "127.0.0.1:1", &chosen),
                 LS_ERR_ARGUMENT, "LOCKSTEP_INTERFACE='=nosuch' matches no");
}

/* A name, not seen to be local, with a loopback address: 127.0.1.1 of Debian.
 */
static void test_own_name(void **state)
{
    (void)state;
    lsi_interface chosen, by_default;
    assert_ok(lsi_interface_choose(NULL, "0x7f000101:1", &chosen));
    if (lsi_interface_choose(NULL, "192.0.2.1:1", &by_default) == LS_OK) {
        assert_string_equal(chosen.name, by_default.name);
        assert_string_equal(chosen.address, by_default.address);
        assert_non_null(strstr(chosen.why, "the default route"));
    } else { /* a machine without networks */
        assert_string_equal(chosen.name, "lo");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_route),
        cmocka_unit_test(test_own_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

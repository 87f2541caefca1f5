/* Which devices UCX may use, by what the kernel shows: a folder made here. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/net/ucx/load.h"

static char sys[] = "/tmp/lockstep-sys-XXXXXX";

static void make(const char *path)
{
    char whole[256], command[512];
    snprintf(whole, sizeof(whole), "%s/%s", sys, path);
    snprintf(command, sizeof(command), "mkdir -p %s", whole);
    assert_int_equal(system(command), 0);
}

static void put(const char *path, const char *text)
{
    char whole[256];
    snprintf(whole, sizeof(whole), "%s/%s", sys, path);
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int make_machine(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(sys));
    make("class/net/eth0");
    make("class/net/eth1/device/infiniband/mlx5_1");
    put("class/net/eth1/dev_port", "1\n");
    make("class/infiniband/mlx5_0/ports/1");
    put("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    make("class/infiniband/mlx5_0/ports/2");
    put("class/infiniband/mlx5_0/ports/2/state", "1: DOWN\n");
    return 0;
}

static int remove_machine(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", sys);
    return system(command);
}

static void assert_devices(const char *interface, bool told, const char *right)
{
    char devices[LSI_UCX_DEVICES_BYTES];
    lsi_ucx_devices(sys, interface, told, devices);
    assert_string_equal(devices, right);
}

static void an_interface_brings_its_own_device(void **state)
{
    (void)state;
    assert_devices("eth0", true, "eth0");
    assert_devices("eth1", true, "eth1,mlx5_1:2");
    assert_devices("eth9", true, "eth9");
}

static void a_route_leaves_all_devices_that_are_up(void **state)
{
    (void)state;
    assert_devices("eth0", false, "eth0,mlx5_0:1");
    assert_devices("eth0:7", false, "eth0,mlx5_0:1"); /* a second address */
}

static void a_machine_may_have_none(void **state)
{
    char devices[LSI_UCX_DEVICES_BYTES];
    (void)state;
    lsi_ucx_devices("/nonexistent", "lo", false, devices);
    assert_string_equal(devices, "lo");
    lsi_ucx_devices("/nonexistent", "lo", true, devices);
    assert_string_equal(devices, "lo");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interface_brings_its_own_device),
        cmocka_unit_test(a_route_leaves_all_devices_that_are_up),
        cmocka_unit_test(a_machine_may_have_none),
    };
    return cmocka_run_group_tests(tests, make_machine, remove_machine);
}

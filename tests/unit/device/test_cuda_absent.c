/*
 * The module for NVIDIA's GPUs where their driver is missing, finds no GPU,
 * does not start, or is too old: each a sentence. A process loads one driver
 * only, so each is looked at by a child.
 */
#include "testing.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "array/device/find.h"
#include "driver/standin.h"

enum { REAL = 3 };

/* The exit status of a process in which `path` is the driver; NULL: none. */
static int look(const char *path, int devices, const char *why)
{
    char sentence[256];
    const lsi_device_table *table = NULL;
    int index = 0, n = 0;
    void *const loaded = path == NULL ? NULL : dlopen(path, RTLD_NOW);
    if (path == NULL && dlopen("libcuda.so.1", RTLD_LAZY) != NULL)
        return REAL;
    if ((path != NULL) != (loaded != NULL))
        return 1;
    const standin_control *const standin =
        loaded == NULL ? NULL : dlsym(loaded, "standin");
    if (standin != NULL)
        standin->set((standin_settings){.devices = devices});
    snprintf(sentence, sizeof(sentence), "cuda:0 cannot be used: %s", why);
    for (int round = 0; round < 2; round++) {
        if (lsi_device_list(NULL, 0, &n) != LS_ERR_UNSUPPORTED ||
            strcmp(ls_last_error(), why) != 0 ||
            lsi_device_find("cuda", &table, &index) != LS_ERR_UNSUPPORTED ||
            strcmp(ls_last_error(), sentence) != 0) {
            fprintf(stderr, "%s\n", ls_last_error());
            return 2;
        }
    }
    return 0;
}

static int look_in_child(const char *path, int devices, const char *why)
{
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(look(path, devices, why));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_no_driver(void **state)
{
    (void)state;
    const int status = look_in_child(NULL, 0, "libcuda.so.1 is not installed");
    if (status == REAL)
        skip();
    assert_int_equal(status, 0);
}

static void test_no_gpu(void **state)
{
    (void)state;
    assert_int_equal(
        look_in_child(STANDIN_DRIVER, 0, "the driver finds no device"), 0);
}

static void test_does_not_start(void **state)
{
    (void)state;
    assert_int_equal(look_in_child(STANDIN_DRIVER, -1,
                                   "cuInit: CUDA_ERROR_UNKNOWN (unknown "
                                   "error)"),
                     0);
}

static void test_too_old(void **state)
{
    (void)state;
    assert_int_equal(look_in_child(OLD_DRIVER, 1,
                                   "libcuda.so.1 has no cuGetErrorString; it "
                                   "should be of CUDA 11.2 or later"),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_driver),
        cmocka_unit_test(test_no_gpu),
        cmocka_unit_test(test_does_not_start),
        cmocka_unit_test(test_too_old),
    };
    setenv("LOCKSTEP_MODULES", BUILT_MODULES, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

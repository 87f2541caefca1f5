/*
 * Linked to a test program, puts its tensors, tapes and parameters on the fake
 * device, so that it tests the same on a device: a hidden access of the host
 * ends it by SIGSEGV (but in the moments in which the stream computes), a
 * missing wait leaves old bytes to be compared. At the end nothing may be left
 * there.
 */
#include <stdio.h>

#include "array/device/device.h"
#include "fake_device.h"
#include "model/tensor/tensor.h"
#include "testing.h"

static lsi_device *device;

void *test_device_data(const ls_tensor *tensor)
{
    static char nothing;
    if (lsi_tensor_device(tensor) == NULL)
        return NULL;
    if (tensor->storage->bytes == 0)
        return &nothing;
    (void)lsi_device_wait(device);
    return device_data(lsi_tensor_raw(tensor));
}

void *test_device_floats(const float *floats)
{
    (void)lsi_device_wait(device);
    return device_data(floats);
}

static bool open_device(void)
{
    fake_next = (fake_settings){.longest_nap = 40};
    if (lsi_device_open(&device, &fake_device, 0) != LS_OK)
        return false;
    lsi_device_set_default(device);
    return true;
}

/* Whether all is well, and everything was given back. */
static bool close_device(void)
{
    lsi_device_set_default(NULL);
    const ls_status status = lsi_device_wait(device);
    const lsi_device_counts counts = lsi_device_counted(device);
    const unsigned blocks = fake_blocks();
    fprintf(stderr, "%s: %llu operations\n", lsi_device_name(device),
            (unsigned long long)counts.operations);
    if (status != LS_OK)
        fprintf(stderr, "%s\n", ls_last_error());
    if (blocks > 0 || counts.live_bytes > 0)
        fprintf(stderr, "%u blocks, %zu bytes are left\n", blocks,
                counts.live_bytes);
    if (blocks == 0)
        lsi_device_close(&device);
    return status == LS_OK && blocks == 0 && counts.operations > 0;
}

/* In the place of main (the linker's --wrap), whose tests come between: what
 * is computed is done before libraries are taken down. */
int tested_main(int argc, char **argv) __asm__("__real_main");
int main_on_device(int argc, char **argv) __asm__("__wrap_main");

int main_on_device(int argc, char **argv)
{
    if (!open_device()) {
        fprintf(stderr, "%s\n", ls_last_error());
        return 1;
    }
    const int failed = tested_main(argc, argv);
    return close_device() ? failed : 1;
}

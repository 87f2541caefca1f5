/*
 * A module of devices that can only be counted and described: TEST_DEVICES of
 * them, of which number 1 does not say what it is. Less than none: no driver.
 */
#include <stdio.h>
#include <stdlib.h>

#include "array/device/table.h"

static int count(int *n)
{
    const char *text = getenv("TEST_DEVICES");
    *n = text == NULL ? 0 : atoi(text);
    return *n < 0 ? -1 : 0;
}

static int describe(int index, lsi_device_facts *out)
{
    if (index == 1)
        return -1;
    *out = (lsi_device_facts){.detail = "of paper", .memory = 3UL << 30};
    snprintf(out->name, sizeof(out->name), "Model %d", index);
    return 0;
}

static const char *error(const lsi_device_context *context)
{
    (void)context;
    return "it is not there today";
}

__attribute__((visibility("default"))) const lsi_device_table *
lockstep_device(void);
const lsi_device_table *lockstep_device(void)
{
    static const lsi_device_table table = {.version = TEST_VERSION,
                                           .kind = "cuda",
                                           .count = count,
                                           .describe = describe,
                                           .error = error};
    return &table;
}

#include "comm/net/ucx/load.h"

#include <dirent.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"
#include "base/variables.h"
#include "comm/net/internode.h"

/* ---- loading ------------------------------------------------------------- */

/*
 * Variables that UCX reads once, when it is loaded. Without them it would
 * handle the signals of crashes and SIGHUP, replace memory allocators, and
 * print to stdout.
 */
static const lsi_variable wanted[] = {{"UCX_HANDLE_ERRORS", "none", false},
                                      {"UCX_ERROR_SIGNALS", "", false},
                                      {"UCX_DEBUG_SIGNO", "0", false},
                                      {"UCX_MEM_EVENTS", "n", false},
                                      {"UCX_MEM_MMAP_HOOK_MODE", "none", false},
                                      {"UCX_MEM_MALLOC_HOOKS", "n", false},
                                      {"UCX_VFS_ENABLE", "n", false},
                                      {"UCX_WARN_UNUSED_ENV_VARS", "n", false},
                                      {"UCX_LOG_LEVEL", "fatal", false}};

enum { VARIABLES = sizeof(wanted) / sizeof(wanted[0]) };

/* Programs that this one starts do not inherit the variables. */
ls_status lsi_ucx_load(const lsi_wire **out)
{
    static const lsi_wire *_Atomic loaded; /* it stays */
    lsi_variable variables[VARIABLES];
    *out = atomic_load(&loaded);
    if (*out != NULL)
        return LS_OK;
    memcpy(variables, wanted, sizeof(variables));
    lsi_variables_add(variables, VARIABLES);
    const ls_status status = lsi_wire_load("ucx", out);
    lsi_variables_remove(variables, VARIABLES);
    if (status == LS_OK)
        atomic_store(&loaded, *out);
    return status;
}

/* ---- devices ------------------------------------------------------------- */

static void append(char *devices, const char *name, int port)
{
    const size_t used = strlen(devices);
    char more[NAME_MAX + 16];
    const int length = snprintf(more, sizeof(more), ",%s:%d", name, port);
    if (length > 0 && used + (size_t)length < LSI_UCX_DEVICES_BYTES)
        memcpy(devices + used, more, (size_t)length + 1);
}

/* The next entry of a folder that is none of the dots. */
static const char *next(DIR *folder)
{
    const struct dirent *entry;
    do
        entry = readdir(folder);
    while (entry != NULL && entry->d_name[0] == '.');
    return entry == NULL ? NULL : entry->d_name;
}

/* The RDMA device of an interface, by the port that the interface is. */
static void append_own(const char *sys, const char *interface, char *devices)
{
    char path[PATH_MAX], line[32];
    snprintf(path, sizeof(path), "%s/class/net/%s/dev_port", sys, interface);
    (void)lsi_proc_read(path, line, sizeof(line));
    snprintf(path, sizeof(path), "%s/class/net/%s/device/infiniband", sys,
             interface);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return;
    for (const char *name; (name = next(folder)) != NULL;)
        append(devices, name, (int)strtol(line, NULL, 10) + 1);
    (void)closedir(folder);
}

static void append_active(const char *sys, const char *device, char *devices)
{
    char path[PATH_MAX], line[32];
    snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports", sys, device);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return;
    for (const char *port; (port = next(folder)) != NULL;) {
        snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/%s/state",
                 sys, device, port);
        (void)lsi_proc_read(path, line, sizeof(line));
        if (strstr(line, "ACTIVE") != NULL)
            append(devices, device, (int)strtol(port, NULL, 10));
    }
    (void)closedir(folder);
}

static void append_all(const char *sys, char *devices)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/class/infiniband", sys);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return;
    for (const char *name; (name = next(folder)) != NULL;)
        append_active(sys, name, devices);
    (void)closedir(folder);
}

void lsi_ucx_devices(const char *sys, const char *interface, bool given,
                     char devices[LSI_UCX_DEVICES_BYTES])
{
    /* A second address of an interface may be labelled "eth0:1". */
    snprintf(devices, LSI_UCX_DEVICES_BYTES, "%.*s",
             (int)strcspn(interface, ":"), interface);
    if (given)
        append_own(sys, interface, devices);
    else
        append_all(sys, devices);
}

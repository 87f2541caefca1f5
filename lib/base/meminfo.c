#include "base/meminfo.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/proc.h"

int64_t lsi_meminfo_parse(const char *text, const char *key)
{
    const size_t length = strlen(key);
    for (const char *line = text; line != NULL; line = lsi_next_line(line)) {
        if (strncmp(line, key, length) == 0 && line[length] == ':') {
            char *end;
            const long long kib = strtoll(line + length + 1, &end, 10);
            const int valid =
                end != line + length + 1 && kib >= 0 && kib <= INT64_MAX / 1024;
            return valid ? (int64_t)kib * 1024 : -1;
        }
    }
    return -1;
}

int64_t lsi_memory_available(void)
{
    char text[8192];
    if (lsi_proc_read("/proc/meminfo", text, sizeof(text)) < 0)
        return -1;
    const int64_t machine = lsi_meminfo_parse(text, "MemAvailable");
    const double group =
        lsi_cgroup_memory_left("/proc/self/cgroup", "/sys/fs/cgroup");
    return group > 0 && group < (double)machine ? (int64_t)group : machine;
}

/* The second number of the line is pages. */
int64_t lsi_memory_resident(void)
{
    char text[128], *end;
    if (lsi_proc_read("/proc/self/statm", text, sizeof(text)) < 0)
        return -1;
    (void)strtoll(text, &end, 10);
    const char *const second = end;
    const long long pages = strtoll(second, &end, 10);
    return end == second ? -1 : (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static int64_t read_status(const char *key)
{
    char text[8192];
    if (lsi_proc_read("/proc/self/status", text, sizeof(text)) < 0)
        return -1;
    return lsi_meminfo_parse(text, key);
}

int64_t lsi_memory_resident_files(void)
{
    return read_status("RssFile");
}

int64_t lsi_memory_resident_peak(void)
{
    return read_status("VmHWM");
}

bool lsi_memory_reset_resident_peak(void)
{
    const int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const bool done = write(file, "5", 1) == 1;
    close(file);
    return done;
}

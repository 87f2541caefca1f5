#include "base/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/proc.h"

enum { PATH_BYTES = 4096, TEXT_BYTES = 8192 };

static bool quotient(const char *quota_text, const char *period_text,
                     double *cpus)
{
    char *quota_end, *period_end;
    const double quota = strtod(quota_text, &quota_end);
    const double period = strtod(period_text, &period_end);
    if (quota_end == quota_text || period_end == period_text)
        return false;
    if (!(quota > 0) || !(period > 0))
        return false;
    *cpus = quota / period;
    return true;
}

bool lsi_cgroup_parse_v2(const char *cpu_max, double *cpus)
{
    const char *blank = strchr(cpu_max, ' ');
    if (blank == NULL || strncmp(cpu_max, "max", 3) == 0)
        return false;
    return quotient(cpu_max, blank, cpus);
}

bool lsi_cgroup_parse_v1(const char *quota, const char *period, double *cpus)
{
    return quotient(quota, period, cpus);
}

/* Whether "cpu,cpuacct" has the item "cpu". */
static bool list_has(const char *list, size_t bytes, const char *item)
{
    const size_t item_bytes = strlen(item);
    for (const char *end = list + bytes; list < end;) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        const size_t length = (size_t)((comma ? comma : end) - list);
        if (length == item_bytes && memcmp(list, item, length) == 0)
            return true;
        list += length + 1;
    }
    return false;
}

/* A line is "id:controllers:path"; the unified hierarchy names none. */
static bool line_path(const char *line, const char *controller, char *out,
                      size_t out_bytes)
{
    const char *list = strchr(line, ':');
    const char *end = strchrnul(line, '\n');
    if (list == NULL || list >= end)
        return false;
    list++;
    const char *path = memchr(list, ':', (size_t)(end - list));
    if (path == NULL)
        return false;
    const size_t list_bytes = (size_t)(path - list);
    path++;
    if (controller == NULL ? list_bytes != 0
                           : !list_has(list, list_bytes, controller))
        return false;
    const size_t path_bytes = (size_t)(end - path);
    if (path_bytes >= out_bytes)
        return false;
    memcpy(out, path, path_bytes);
    out[path_bytes] = '\0';
    return true;
}

bool lsi_cgroup_path(const char *proc_cgroup, const char *controller, char *out,
                     size_t out_bytes)
{
    for (const char *line = proc_cgroup; line != NULL;
         line = lsi_next_line(line)) {
        if (line_path(line, controller, out, out_bytes))
            return true;
    }
    return false;
}

static bool read_in(const char *folder, const char *name, char text[TEXT_BYTES])
{
    char path[PATH_BYTES + 32];
    const int length = snprintf(path, sizeof(path), "%s/%s", folder, name);
    return length < (int)sizeof(path) &&
           lsi_proc_read(path, text, TEXT_BYTES) >= 0;
}

static bool limit_v2(const char *folder, double *cpus)
{
    char text[TEXT_BYTES];
    return read_in(folder, "cpu.max", text) && lsi_cgroup_parse_v2(text, cpus);
}

static bool limit_v1(const char *folder, double *cpus)
{
    char quota[TEXT_BYTES], period[TEXT_BYTES];
    return read_in(folder, "cpu.cfs_quota_us", quota) &&
           read_in(folder, "cpu.cfs_period_us", period) &&
           lsi_cgroup_parse_v1(quota, period, cpus);
}

/* A number of bytes; false for "max". */
static bool read_number(const char *folder, const char *name, double *out)
{
    char text[TEXT_BYTES], *end;
    if (!read_in(folder, name, text))
        return false;
    *out = strtod(text, &end);
    return end != text && *out >= 0;
}

/* The number of a line "name 123" of memory.stat; 0 without that line. */
static double read_stat(const char *folder, const char *name)
{
    char text[TEXT_BYTES];
    const size_t length = strlen(name);
    if (!read_in(folder, "memory.stat", text))
        return 0;
    for (const char *line = text; line != NULL; line = lsi_next_line(line)) {
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            return strtod(line + length, NULL);
    }
    return 0;
}

/* The kernel can free its caches of files and of their names. */
static double room(double limit, double used, double kept)
{
    const double left = limit - used + kept;
    return left > 1 ? left : 1;
}

static bool room_v2(const char *folder, double *bytes)
{
    double limit, used;
    if (!read_number(folder, "memory.max", &limit) ||
        !read_number(folder, "memory.current", &used))
        return false;
    *bytes = room(limit, used,
                  read_stat(folder, "active_file") +
                      read_stat(folder, "inactive_file") +
                      read_stat(folder, "slab_reclaimable"));
    return true;
}

static bool room_v1(const char *folder, double *bytes)
{
    double limit, used;
    if (!read_number(folder, "memory.limit_in_bytes", &limit) ||
        !read_number(folder, "memory.usage_in_bytes", &used))
        return false;
    *bytes = room(limit, used,
                  read_stat(folder, "total_active_file") +
                      read_stat(folder, "total_inactive_file"));
    return true;
}

typedef bool (*limit_fn)(const char *folder, double *limit);

/* A limit, and the number of the folder that has it, the same in containers. */
typedef struct found_limit {
    double limit; /* 0: none */
    uint64_t folder;
} found_limit;

static found_limit limit_at(const char *folder, double limit)
{
    struct stat info;
    return (found_limit){limit, stat(folder, &info) == 0 ? info.st_ino : 0};
}

/*
 * The tightest limit of root/path and the folders above it, root included. The
 * path may name a place outside this container; then only the root exists.
 */
static found_limit tightest(const char *root, const char *path, limit_fn limit)
{
    char folder[PATH_BYTES];
    const int length = snprintf(folder, sizeof(folder), "%s%s", root, path);
    found_limit best = {0, 0};
    if (length < 0 || length >= (int)sizeof(folder))
        return best;
    for (;;) {
        double here;
        if (limit(folder, &here) && (best.limit == 0 || here < best.limit))
            best = limit_at(folder, here);
        char *slash = strrchr(folder, '/');
        if (slash == NULL || (size_t)(slash - folder) < strlen(root))
            return best;
        *slash = '\0';
    }
}

static found_limit tighter(found_limit a, found_limit b)
{
    if (a.limit == 0 || b.limit == 0)
        return a.limit == 0 ? b : a;
    return a.limit < b.limit ? a : b;
}

/* Where a hierarchy is mounted, and how it says what is wanted. */
typedef struct hierarchy {
    const char *mount, *controller;
    limit_fn limit;
} hierarchy;

static found_limit limit_of(const hierarchy *list, size_t n,
                            const char *proc_file, const char *mount)
{
    char groups[TEXT_BYTES], path[PATH_BYTES], root[PATH_BYTES];
    if (lsi_proc_read(proc_file, groups, sizeof(groups)) < 0)
        return (found_limit){0, 0};
    found_limit best = {0, 0};
    for (size_t i = 0; i < n; i++) {
        snprintf(root, sizeof(root), "%s%s", mount, list[i].mount);
        if (lsi_cgroup_path(groups, list[i].controller, path, sizeof(path)))
            best = tighter(best, tightest(root, path, list[i].limit));
    }
    return best;
}

double lsi_cgroup_cpu_quota(const char *proc_file, const char *mount,
                            uint64_t *group)
{
    static const hierarchy list[] = {{"", NULL, limit_v2},
                                     {"/unified", NULL, limit_v2},
                                     {"/cpu", "cpu", limit_v1},
                                     {"/cpu,cpuacct", "cpu", limit_v1}};
    const found_limit found =
        limit_of(list, sizeof(list) / sizeof(list[0]), proc_file, mount);
    *group = found.folder;
    return found.limit;
}

double lsi_cgroup_cpu_limit(const char *proc_file, const char *mount)
{
    uint64_t group;
    return lsi_cgroup_cpu_quota(proc_file, mount, &group);
}

double lsi_cgroup_memory_left(const char *proc_file, const char *mount)
{
    static const hierarchy list[] = {{"", NULL, room_v2},
                                     {"/unified", NULL, room_v2},
                                     {"/memory", "memory", room_v1}};
    return limit_of(list, sizeof(list) / sizeof(list[0]), proc_file, mount)
        .limit;
}

/* ---- killed for want of memory ---------------------------------------- */

bool lsi_cgroup_parse_oom(const char *text, uint64_t *kills)
{
    static const char name[] = "oom_kill ";
    for (const char *line = text; line != NULL; line = lsi_next_line(line)) {
        const char *const digits = line + sizeof(name) - 1;
        if (strncmp(line, name, sizeof(name) - 1) == 0 && *digits >= '0' &&
            *digits <= '9') {
            *kills = strtoull(digits, NULL, 10);
            return true;
        }
    }
    return false;
}

/* Of root/path or the nearest folder above it that says so. */
static bool oom_kills_of(const char *root, const char *path, const char *name,
                         uint64_t *kills)
{
    char folder[PATH_BYTES], text[TEXT_BYTES];
    const int length = snprintf(folder, sizeof(folder), "%s%s", root, path);
    if (length < 0 || length >= (int)sizeof(folder))
        return false;
    while (strlen(folder) >= strlen(root)) {
        if (read_in(folder, name, text) && lsi_cgroup_parse_oom(text, kills))
            return true;
        char *const slash = strrchr(folder, '/');
        if (slash == NULL)
            return false;
        *slash = '\0';
    }
    return false;
}

bool lsi_cgroup_oom_kills(const char *proc_file, const char *mount,
                          uint64_t *kills)
{
    static const struct {
        const char *mount, *controller, *file;
    } list[] = {{"", NULL, "memory.events"},
                {"/unified", NULL, "memory.events"},
                {"/memory", "memory", "memory.oom_control"}};
    char groups[TEXT_BYTES], path[PATH_BYTES], root[PATH_BYTES];
    if (lsi_proc_read(proc_file, groups, sizeof(groups)) < 0)
        return false;
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        snprintf(root, sizeof(root), "%s%s", mount, list[i].mount);
        if (lsi_cgroup_path(groups, list[i].controller, path, sizeof(path)) &&
            oom_kills_of(root, path, list[i].file, kills))
            return true;
    }
    return false;
}

/*
 * Sets of CPUs, by the numbers of the operating system.
 */
#include "base/cpuset.h"

#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int lsi_cpuset_count(const lsi_cpuset *set)
{
    int found = 0;
    for (int w = 0; w < LSI_CPUSET_WORDS; w++)
        found += __builtin_popcountll(set->words[w]);
    return found;
}

bool lsi_cpuset_within(const lsi_cpuset *inner, const lsi_cpuset *outer)
{
    uint64_t outside = 0;
    for (int w = 0; w < LSI_CPUSET_WORDS; w++)
        outside |= inner->words[w] & ~outer->words[w];
    return outside == 0;
}

/* A number that a CPU can have; *text is put behind it. */
static bool read_cpu(const char **text, int *out)
{
    char *end;
    if (!isdigit((unsigned char)**text))
        return false;
    const unsigned long value = strtoul(*text, &end, 10);
    *text = end;
    *out = (int)value;
    return value < LSI_CPUSET_MAX;
}

bool lsi_cpuset_parse(const char *text, lsi_cpuset *out)
{
    lsi_cpuset set = {{0}};
    const char *at = text;
    int first, last;
    while (*at != '\0' && *at != '\n') {
        if (!read_cpu(&at, &first))
            return false;
        last = first;
        if (*at == '-') {
            at++;
            if (!read_cpu(&at, &last) || last < first)
                return false;
        }
        for (int cpu = first; cpu <= last; cpu++)
            lsi_cpuset_add(&set, cpu);
        if (*at == ',' && isdigit((unsigned char)at[1]))
            at++;
        else if (*at != '\0' && *at != '\n')
            return false;
    }
    *out = set;
    return true;
}

void lsi_cpuset_text(const lsi_cpuset *set, char *out, size_t bytes)
{
    size_t used = 0;
    snprintf(out, bytes, "none");
    for (int cpu = 0; cpu < LSI_CPUSET_MAX; cpu++) {
        char part[32];
        if (!lsi_cpuset_has(set, cpu))
            continue;
        const int first = cpu;
        while (lsi_cpuset_has(set, cpu + 1))
            cpu++;
        const char *const comma = used > 0 ? "," : "";
        const int length =
            cpu > first
                ? snprintf(part, sizeof(part), "%s%d-%d", comma, first, cpu)
                : snprintf(part, sizeof(part), "%s%d", comma, first);
        if (used + (size_t)length >= bytes) {
            const size_t most = bytes - sizeof("...");
            memcpy(out + (used < most ? used : most), "...", sizeof("..."));
            return;
        }
        memcpy(out + used, part, (size_t)length + 1);
        used += (size_t)length;
    }
}

/* The words are laid out as those of a cpu_set_t, of any size. */
bool lsi_cpuset_own(lsi_cpuset *out)
{
    memset(out, 0, sizeof(*out));
    return sched_getaffinity(0, sizeof(out->words),
                             (cpu_set_t *)(void *)out->words) == 0;
}

bool lsi_cpuset_bind(const lsi_cpuset *set)
{
    return sched_setaffinity(0, sizeof(set->words),
                             (const cpu_set_t *)(const void *)set->words) == 0;
}

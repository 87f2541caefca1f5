/* Work of all CPUs, less our own; see busy.h. */
#include "base/busy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/proc.h"

#define QUARTER    0.25
#define WATCHED_NS (500 * 1000 * 1000)

/* user nice system idle iowait irq softirq steal; guests are in user and nice.
 */
enum { IDLE = 3, IOWAIT = 4, TIMES = 8 };

/* Parses the number at *at, and moves *at past it. */
static bool parse_number(const char **at, unsigned long long *out)
{
    char *end;
    *out = strtoull(*at, &end, 10);
    const bool found = end != *at;
    *at = end;
    return found;
}

/* Parses the part of a line after "cpu". */
static bool parse_line(const char *at, int *cpu, double *work)
{
    unsigned long long number, time;
    if (!parse_number(&at, &number) || number >= LSI_CPUSET_MAX)
        return false;
    *work = 0;
    for (int i = 0; i < TIMES; i++) {
        if (*at != ' ' || !parse_number(&at, &time))
            return false;
        if (i != IDLE && i != IOWAIT)
            *work += (double)time;
    }
    *cpu = (int)number;
    return true;
}

bool lsi_busy_parse(const char *stat, const lsi_cpuset *cpus, double ticks,
                    double *seconds)
{
    double sum = 0;
    int found = 0;
    for (const char *line = stat; line != NULL; line = lsi_next_line(line)) {
        int cpu;
        double work;
        if (strncmp(line, "cpu", 3) == 0 && line[3] != ' ' &&
            parse_line(line + 3, &cpu, &work) && lsi_cpuset_has(cpus, cpu)) {
            sum += work / ticks;
            found++;
        }
    }
    if (found == 0)
        return false;
    *seconds = sum;
    return true;
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

/* The lines of CPUs come first. */
static bool work_until_now(const lsi_cpuset *cpus, double *seconds)
{
    const size_t most = (size_t)1 << 20;
    FILE *const file = fopen("/proc/stat", "re");
    char *const text = malloc(most);
    bool known = false;
    if (file != NULL && text != NULL) {
        text[fread(text, 1, most - 1, file)] = '\0';
        known =
            lsi_busy_parse(text, cpus, (double)sysconf(_SC_CLK_TCK), seconds);
    }
    free(text);
    if (file != NULL)
        fclose(file);
    return known;
}

static bool read_sample(lsi_busy_sample *out)
{
    struct rusage self, children;
    lsi_cpuset cpus;
    if (!lsi_cpuset_own(&cpus) || getrusage(RUSAGE_SELF, &self) != 0 ||
        getrusage(RUSAGE_CHILDREN, &children) != 0)
        return false;
    out->own = seconds_of(self.ru_utime) + seconds_of(self.ru_stime) +
               seconds_of(children.ru_utime) + seconds_of(children.ru_stime);
    out->wall = (double)lsi_clock_ns() * 1e-9;
    return work_until_now(&cpus, &out->all);
}

double lsi_busy_others(const lsi_busy_sample *begin, const lsi_busy_sample *end)
{
    const double work = (end->all - begin->all) - (end->own - begin->own);
    const double wall = end->wall - begin->wall;
    return work > 0 && wall > 0 ? work / wall : 0;
}

bool lsi_busy_rule(double others, int cpus)
{
    return others > QUARTER * (double)cpus;
}

bool lsi_busy_now(double *others, int *cpus)
{
    lsi_busy_sample begin, end;
    if (!read_sample(&begin))
        return false;
    const struct timespec half = {.tv_nsec = WATCHED_NS};
    (void)nanosleep(&half, NULL);
    if (!read_sample(&end))
        return false;
    *others = lsi_busy_others(&begin, &end);
    *cpus = lsi_cpus_available();
    return lsi_busy_rule(*others, *cpus);
}

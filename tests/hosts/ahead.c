/*
 * Sums of three hosts go to rank 0, and rank 2 is late. Rank 1 has nothing to
 * wait for but rank 0, which cannot add up without rank 2. Rank 0 must not get
 * all the data of rank 1 meanwhile.
 *
 * The program says how much the memory of rank 0 has grown.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../unit/comm/ranks.h"
#include "comm/api/request.h"
#include "lockstep/comm.h"

enum { COUNT = 16 << 20, LATE_NS = 500000000 };

/* More than the segments in flight, and a quarter of the vector. */
enum { MOST_MB = COUNT / 4 * (int)sizeof(float) / 1000000 };

/* Anonymous memory. */
static double resident_mb(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[128];
    double kib = -1;
    CHECK(status != NULL);
    while (kib < 0 && fgets(line, sizeof(line), status) != NULL)
        if (strncmp(line, "RssAnon:", 8) == 0)
            kib = strtod(line + 8, NULL);
    fclose(status);
    CHECK(kib > 0);
    return kib * 1024 / 1e6;
}

/* Waits; the most memory meanwhile. */
static double most_until_done(ls_request *request)
{
    double most = resident_mb();
    for (;;) {
        const ls_status status = ls_test(request);
        const double now = resident_mb();
        most = now > most ? now : most;
        if (status == LS_OK)
            return most;
        CHECK(status == LS_IN_PROGRESS);
    }
}

static uint64_t sent_by(const ls_group *group)
{
    ls_group_counters counters;
    ls_group_get_counters(group, &counters);
    return counters.bytes_sent;
}

/* Sends the first data, and sleeps before it goes on. */
static void come_late(ls_group *group, ls_request *request, uint64_t before)
{
    while (sent_by(group) == before)
        CHECK(ls_test(request) == LS_IN_PROGRESS);
    nanosleep(&(struct timespec){.tv_nsec = LATE_NS}, NULL);
    CHECK_OK(ls_wait(request));
}

/* The sums are in `to`. */
static void check(ls_group *group, const char *what, ls_request *request,
                  uint64_t sent, double before, const float *to)
{
    if (ls_group_rank(group) == 2)
        come_late(group, request, sent);
    if (ls_group_rank(group) == 1)
        CHECK_OK(ls_wait(request));
    if (ls_group_rank(group) != 0)
        return;
    const double grown = most_until_done(request) - before;
    printf("%s: %.1f MB more for a vector of %.1f MB\n", what, grown,
           COUNT * sizeof(float) / 1e6);
    fflush(stdout);
    for (int i = 0; i < COUNT; i++)
        CHECK(to[i] == (float)(3 * (i % 1000) + 3));
    CHECK(grown < MOST_MB);
}

static void check_reduce(ls_group *group, const float *data, float *to)
{
    ls_request *request;
    const uint64_t sent = sent_by(group);
    const double before = resident_mb();
    CHECK_OK(
        ls_ireduce(group, data, to, COUNT, LS_F32, LS_REDUCE_SUM, 0, &request));
    check(group, "reduce", request, sent, before, to);
}

/* Shards of which rank 0 owns all. */
static void check_shards(ls_group *group, float *data)
{
    ls_request *request;
    CHECK_OK(lsi_reduce_shards_plan(group, (lsi_buffer){data, COUNT, LS_F32},
                                    (lsi_shards){.first = 0, .shard = COUNT},
                                    &request));
    const uint64_t sent = sent_by(group);
    const double before = resident_mb();
    CHECK_OK(ls_start(request));
    check(group, "shards", request, sent, before, data);
    ls_request_free(&request);
}

int main(void)
{
    ls_group *group = NULL;
    CHECK_OK(ls_group_from_env(&group));
    CHECK(ls_group_size(group) == 3);
    float *const data = malloc(COUNT * sizeof(float));
    float *const to = malloc(COUNT * sizeof(float));
    CHECK(data != NULL && to != NULL);
    for (int i = 0; i < COUNT; i++)
        data[i] = to[i] = (float)(i % 1000 + ls_group_rank(group));
    check_reduce(group, data, to);
    check_shards(group, data);
    free(data);
    free(to);
    ls_group_close(&group);
    return 0;
}

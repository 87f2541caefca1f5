/*
 * Scenes for ranks on several hosts, by name:
 *
 *   fork    rank 0 forks a child that exits, and goes on
 *   cross   ranks wait for each other in two groups at once
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lockstep/lockstep.h"

enum { LONG = 1 << 20, CHILD_SECONDS = 5 };

static float data[LONG];

static ls_status say(const char *what)
{
    fprintf(stderr, "%s\n", what);
    return LS_ERR_STATE;
}

static ls_status fork_and_go_on(ls_group *group)
{
    int ended = 0;
    ls_status status =
        ls_all_reduce(group, data, data, LONG, LS_F32, LS_REDUCE_SUM);
    const time_t begin = time(NULL);
    if (status == LS_OK && ls_group_rank(group) == 0) {
        const pid_t child = fork();
        if (child == 0)
            exit(0); /* as a program would that knows nothing of MPI */
        if (waitpid(child, &ended, 0) != child || ended != 0)
            status = say("the child did not exit with 0");
        if (time(NULL) - begin > CHILD_SECONDS)
            status = say("the child took long to exit");
    }
    for (int i = 0; i < 20 && status == LS_OK; i++)
        status = ls_all_reduce(group, data, data, LONG, LS_F32, LS_REDUCE_SUM);
    return status;
}

static ls_status cross_from_first(ls_group *group, ls_group *other)
{
    float word = 0;
    ls_request *request = NULL;
    const int last = ls_group_size(group) - 1;
    ls_status status = ls_isend(group, data, LONG, LS_F32, last, 0, &request);
    if (status == LS_OK)
        status = ls_recv(other, &word, 1, LS_F32, last, 0);
    if (status == LS_OK)
        status = ls_wait(request);
    if (status == LS_OK)
        ls_request_free(&request);
    return status;
}

static ls_status cross_from_last(ls_group *group, ls_group *other)
{
    float word = 0;
    ls_status status = ls_recv(group, data, LONG, LS_F32, 0, 0);
    if (status == LS_OK)
        status = ls_send(other, &word, 1, LS_F32, 0, 0);
    return status;
}

static ls_status cross(ls_group *group)
{
    ls_group *other = NULL;
    ls_status status = ls_group_split(group, 0, 0, &other);
    if (status == LS_OK && ls_group_rank(group) == 0)
        status = cross_from_first(group, other);
    else if (status == LS_OK &&
             ls_group_rank(group) == ls_group_size(group) - 1)
        status = cross_from_last(group, other);
    if (status == LS_OK)
        status = ls_barrier(group);
    ls_group_close(&other);
    return status;
}

int main(int argc, char **argv)
{
    ls_group *group = NULL;
    ls_status status = ls_group_from_env(&group);
    if (status == LS_OK && argc > 1)
        status =
            strcmp(argv[1], "fork") == 0 ? fork_and_go_on(group) : cross(group);
    if (status != LS_OK)
        fprintf(stderr, "%s\n", ls_last_error());
    ls_group_close(&group);
    return status != LS_OK;
}

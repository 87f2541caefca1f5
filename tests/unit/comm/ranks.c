#include "ranks.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 64 };

typedef struct player {
    pthread_t thread;
    ls_group *group;
    rank_fn *fn;
    void *argument;
} player;

static void *play(void *context)
{
    player *self = context;
    self->fn(self->group, self->argument);
    ls_group_close(&self->group);
    return NULL;
}

void run_threads(int size, rank_fn *fn, void *argument)
{
    player players[MOST];
    ls_group *groups[MOST];
    CHECK(size <= MOST);
    CHECK_OK(ls_group_open_threads(groups, size));
    for (int r = 0; r < size; r++) {
        players[r] =
            (player){.group = groups[r], .fn = fn, .argument = argument};
        CHECK(pthread_create(&players[r].thread, NULL, play, &players[r]) == 0);
    }
    for (int r = 0; r < size; r++)
        pthread_join(players[r].thread, NULL);
}

static void set_int(const char *name, int value)
{
    char text[32];
    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

static void be_rank(int rank, int size, rank_fn *fn, void *argument)
{
    ls_group *group = NULL;
    set_int("RANK", rank);
    set_int("LOCAL_RANK", rank);
    set_int("WORLD_SIZE", size);
    set_int("LOCAL_WORLD_SIZE", size);
    CHECK_OK(ls_group_from_env(&group));
    fn(group, argument);
    ls_group_close(&group);
    _exit(0);
}

void start_processes(int size, rank_fn *fn, void *argument, pid_t *pids)
{
    static int jobs;
    char job[64];
    snprintf(job, sizeof(job), "test-%ld-%d", (long)getpid(), jobs++);
    setenv("LOCKSTEP_JOB", job, 1);
    for (int r = 0; r < size; r++) {
        pids[r] = fork();
        CHECK(pids[r] >= 0);
        if (pids[r] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            be_rank(r, size, fn, argument);
        }
    }
}

int wait_process(pid_t pid)
{
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

void run_processes(int size, rank_fn *fn, void *argument)
{
    pid_t pids[MOST];
    CHECK(size <= MOST);
    start_processes(size, fn, argument, pids);
    for (int r = 0; r < size; r++)
        CHECK(wait_process(pids[r]) == 0);
}

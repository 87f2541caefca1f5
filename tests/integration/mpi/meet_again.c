/*
 * Meets the other ranks three times. The last rank closes each group later than
 * the others, and waits before it uses the next. The others no longer receive
 * from it, so that they look for ranks that have left. With an argument it does
 * not come to the second meeting for that many seconds, and ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "lockstep/lockstep.h"

static void dawdle(const ls_group *group)
{
    const struct timespec moment = {.tv_nsec = 250L * 1000 * 1000};
    if (ls_group_rank(group) == ls_group_size(group) - 1)
        (void)nanosleep(&moment, NULL);
}

static ls_status meet(ls_group **group)
{
    ls_status status = ls_group_from_env(group);
    if (status != LS_OK)
        return status;
    dawdle(*group);
    status = ls_barrier(*group);
    dawdle(*group);
    return status;
}

int main(int argc, char **argv)
{
    for (int i = 0; i < 3; i++) {
        ls_group *group = NULL;
        if (meet(&group) != LS_OK) {
            fprintf(stderr, "meeting %d: %s\n", i, ls_last_error());
            return 1;
        }
        const int is_last = ls_group_rank(group) == ls_group_size(group) - 1;
        ls_group_close(&group);
        if (argc > 1 && is_last)
            (void)sleep((unsigned)strtoul(argv[1], NULL, 10));
    }
    return 0;
}

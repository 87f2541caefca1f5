#include "comm/node/life.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread.h"

struct lsi_keeper {
    lsi_life *life;
    pid_t process; /* a child of it has no such thread */
    pthread_t thread;
    sem_t born, leaves;
    bool marked; /* the kernel has the list */
};

static void wait_for(sem_t *what)
{
    while (sem_wait(what) != 0 && errno == EINTR)
        continue;
}

static long set_list(struct robust_list_head *list)
{
    return syscall(SYS_set_robust_list, list, sizeof(*list));
}

static bool enlist(lsi_life *life)
{
    life->entry.next = &life->list.list;
    life->list.list.next = &life->entry;
    life->list.futex_offset =
        (long)offsetof(lsi_life, owner) - (long)offsetof(lsi_life, entry);
    life->list.list_op_pending = NULL;
    return set_list(&life->list) == 0;
}

static void *keep(void *context)
{
    lsi_keeper *keeper = context;
    lsi_life *life = keeper->life;
    keeper->marked = enlist(life);
    if (keeper->marked)
        atomic_store(&life->owner, (uint32_t)syscall(SYS_gettid));
    (void)sem_post(&keeper->born);
    wait_for(&keeper->leaves);
    if (keeper->marked)
        atomic_store(&life->owner, 0);
    (void)set_list(NULL); /* it will not stay mapped */
    return NULL;
}

bool lsi_life_begin(lsi_life *life, lsi_keeper **out)
{
    lsi_keeper *keeper = NULL;
    if (lsi_alloc_zeroed(&keeper, sizeof(lsi_keeper), LS_MEMORY_COMM,
                         "liveness of a rank") != LS_OK)
        return false;
    keeper->life = life;
    keeper->process = getpid();
    (void)sem_init(&keeper->born, 0, 0);
    (void)sem_init(&keeper->leaves, 0, 0);
    if (!lsi_thread_begin(keep, keeper, &keeper->thread)) {
        lsi_free(keeper);
        return false;
    }
    wait_for(&keeper->born);
    if (!keeper->marked) {
        lsi_life_end(keeper);
        return false;
    }
    *out = keeper;
    return true;
}

void lsi_life_end(lsi_keeper *keeper)
{
    if (keeper == NULL)
        return;
    if (keeper->process == getpid()) {
        (void)sem_post(&keeper->leaves);
        pthread_join(keeper->thread, NULL);
    }
    lsi_free(keeper);
}

#include "comm/parting.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

static atomic_bool told;
static _Atomic uint64_t known_at; /* when it was first asked about */

/* A rank that computes, and so does not look, ends all the same. */
static void on_end(int number)
{
    (void)number;
    atomic_store(&told, true);
    alarm(1);
}

/* Unless the program handles the signal itself. */
static void handle(int number, void (*handler)(int))
{
    struct sigaction action;
    if (sigaction(number, NULL, &action) != 0 || action.sa_handler != SIG_DFL)
        return;
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    (void)sigaction(number, &action, NULL);
}

void lsi_parting_listen(void)
{
    handle(SIGTERM, on_end);
    handle(SIGUSR1, SIG_IGN);
    handle(SIGPIPE, SIG_IGN); /* what is for the dead is an error, no end */
}

bool lsi_parting_told(uint64_t now_ns, uint64_t *since_ns)
{
    if (!atomic_load_explicit(&told, memory_order_relaxed))
        return false;
    uint64_t never = 0;
    (void)atomic_compare_exchange_strong(&known_at, &never, now_ns);
    *since_ns = now_ns - atomic_load(&known_at);
    return true;
}

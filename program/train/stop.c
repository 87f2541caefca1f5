#include "train/stop.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/requests.h"
#include "base/signal_stack.h"
#include "comm/health/sigterm.h"

/* If several have arrived, the first in this order is reported. */
static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};

enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static atomic_uint noted;
static atomic_int ended_by;
static atomic_flag busy = ATOMIC_FLAG_INIT;
/* Written only by the handler that holds `busy`. */
static lsi_requests requests;
static int first;

static void end_at_once(int number)
{
    (void)signal(number, SIG_DFL);
    (void)raise(number); /* when the handler returns */
}

static void note(int number)
{
    for (unsigned i = 0; i < NUMBERS; i++)
        if (numbers[i] == number)
            atomic_fetch_or(&noted, 1U << i);
    first = number;
    if (number == SIGTERM)
        lsi_sigterm_came();
}

/*
 * A signal that arrives while another thread handles one is of the same event.
 */
static void on_request(int number, siginfo_t *info, void *context)
{
    const int saved = errno;
    (void)context;
    if (atomic_flag_test_and_set(&busy))
        return;
    const bool passed_on = number == SIGTERM && first == SIGINT;
    if (lsi_request_counts(&requests, info, lsi_clock_seconds()) || passed_on) {
        if (requests.n == 1 && !passed_on)
            note(number);
        else
            end_at_once(number);
    }
    atomic_flag_clear(&busy);
    errno = saved;
}

void lsi_stop_listen(void)
{
    struct sigaction action,
        ours = {.sa_sigaction = on_request,
                .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    lsi_use_signal_stack();
    sigemptyset(&ours.sa_mask);
    for (int i = 0; i < NUMBERS; i++)
        sigaddset(&ours.sa_mask, numbers[i]);
    for (int i = 0; i < NUMBERS; i++)
        if (sigaction(numbers[i], NULL, &action) == 0 &&
            action.sa_handler != SIG_IGN)
            (void)sigaction(numbers[i], &ours, NULL);
}

const atomic_uint *lsi_stop_requests(void)
{
    return &noted;
}

int lsi_stop_signal(unsigned bits)
{
    for (unsigned i = 0; i < NUMBERS; i++)
        if (bits >> i & 1U)
            return numbers[i];
    return 0;
}

void lsi_stop_set_ended(int number)
{
    atomic_store(&ended_by, number);
}

int lsi_stop_ended(void)
{
    return atomic_load(&ended_by);
}

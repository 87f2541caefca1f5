/*
 * A failure is there as a whole or not at all, however slow its writer is.
 */
#include "testing.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/core/engine.h"
#include "comm/health/failure.h"
#include "ranks.h"

/* ---- a writer that is interrupted ---------------------------------------- */

static lsi_failure_record *hidden; /* in a page that cannot be read */
static long page_bytes;
static atomic_bool stuck, may_go_on;

/* The writer reads what it is to write, and stays here until it may. */
static void on_fault(int number)
{
    (void)number;
    atomic_store(&stuck, true);
    while (!atomic_load(&may_go_on))
        sched_yield();
    if (mprotect(hidden, (size_t)page_bytes, PROT_READ) != 0)
        _exit(1);
}

static void hide(const lsi_failure_record *failure)
{
    page_bytes = sysconf(_SC_PAGESIZE);
    hidden = mmap(NULL, (size_t)page_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(hidden != MAP_FAILED);
    *hidden = *failure;
    assert_int_equal(mprotect(hidden, (size_t)page_bytes, PROT_NONE), 0);
}

static void look_meanwhile(ls_group *group, void *unused)
{
    (void)unused;
    CHECK_OK(ls_barrier(group));
    if (ls_group_rank(group) == 1) {
        lsi_post_failure(group, hidden);
    } else {
        while (!atomic_load(&stuck))
            sched_yield();
        for (int i = 0; i < 100; i++)
            CHECK_OK(lsi_progress(group));
        if (ls_group_rank(group) == 0)
            atomic_store(&may_go_on, true);
    }
    CHECK(ls_barrier(group) == LS_ERR_MISMATCH);
    CHECK(strstr(ls_last_error(), "disagree about call #7") != NULL);
}

static void a_failure_is_seen_as_a_whole(void **state)
{
    const struct sigaction action = {.sa_handler = on_fault};
    struct sigaction before;
    (void)state;
    hide(&(lsi_failure_record){.status = LS_ERR_MISMATCH,
                               .rank_a = 0,
                               .rank_b = 1,
                               .sequence = 7,
                               .count_a = 1,
                               .count_b = 2});
    assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
    run_threads(2, look_meanwhile, NULL);
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    munmap(hidden, (size_t)page_bytes);
}

/* ---- several writers ----------------------------------------------------- */

/* All tell the story of one of them, and that does not change any more. */
static void fail_at_once(ls_group *group, void *argument)
{
    _Atomic int *winner = argument;
    const int rank = ls_group_rank(group);
    int none = -1;
    char first[64], later[64];
    CHECK_OK(ls_barrier(group));
    lsi_post_failure(group,
                     &(lsi_failure_record){.status = LS_ERR_MISMATCH,
                                           .rank_a = rank,
                                           .rank_b = rank,
                                           .sequence = 100 + (uint64_t)rank,
                                           .count_b = 1});
    CHECK(ls_barrier(group) == LS_ERR_MISMATCH);
    const char *call = strstr(ls_last_error(), "call #");
    CHECK(call != NULL);
    snprintf(first, sizeof(first), "%.9s", call);
    const int told = atoi(first + strlen("call #")) - 100;
    CHECK(atomic_compare_exchange_strong(winner, &none, told) || none == told);
    lsi_post_failure(group, &(lsi_failure_record){.status = LS_ERR_SYSTEM});
    CHECK(ls_barrier(group) == LS_ERR_MISMATCH);
    snprintf(later, sizeof(later), "%.9s", strstr(ls_last_error(), "call #"));
    CHECK(strcmp(first, later) == 0);
}

static void the_first_failure_counts(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        _Atomic int winner = -1;
        run_threads(2 + i % 4, fail_at_once, &winner);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_is_seen_as_a_whole),
        cmocka_unit_test(the_first_failure_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * After calls have failed, no list holds their messages, whose
 * memory is gone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lockstep/profile.h"
#include "ranks.h"

/* Far more than a stream holds. */
enum { LONG = 4 << 20 };

static void await(const atomic_int *word, int value)
{
    while (atomic_load(word) != value)
        usleep(1000);
}

/* Overwrites the stack, so that a list with a dangling message would fail. */
__attribute__((noinline)) static void overwrite_stack(void)
{
    volatile unsigned char bytes[16384];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = 0x55;
}

static unsigned char sent[LONG], received[LONG];
static atomic_int stage;

/* Of some requests one has begun to be received, and the others wait. */
static void fail_and_free(ls_group *group, void *argument)
{
    ls_request *requests[4] = {NULL}, *unused = NULL;
    unsigned char byte;
    (void)argument;
    if (ls_group_rank(group) == 0) {
        CHECK_OK(ls_isend(group, sent, LONG, LS_U8, 1, 0, &requests[0]));
        atomic_store(&stage, 1);
        await(&stage, 2);
        CHECK(ls_wait(requests[0]) == LS_ERR_ABORTED);
        CHECK(ls_send(group, sent, LONG, LS_U8, 1, 0) == LS_ERR_ABORTED);
        overwrite_stack();
        ls_request_free(&requests[0]);
        return;
    }
    await(&stage, 1);
    CHECK_OK(ls_irecv(group, received, LONG, LS_U8, 0, 0, &requests[0]));
    for (int i = 1; i < 4; i++)
        CHECK_OK(ls_irecv(group, &byte, 1, LS_U8, i == 1 ? 0 : LS_ANY_RANK, i,
                          &requests[i]));
    ls_group_abort(group);
    if (*(const int *)argument == 0)
        CHECK(ls_recv(group, &byte, 1, LS_U8, 0, 0) == LS_ERR_ABORTED);
    else
        CHECK(ls_irecv(group, &byte, 1, LS_U8, 0, 0, &unused) ==
              LS_ERR_ABORTED);
    overwrite_stack();
    for (int i = 0; i < 4; i++)
        ls_request_free(&requests[i]);
    atomic_store(&stage, 2);
}

static void what_has_failed_is_in_no_list(void **state)
{
    (void)state;
    for (int later = 0; later < 2; later++) {
        atomic_store(&stage, 0);
        run_threads(2, fail_and_free, &later);
    }
}

/* Its budget does not allow to keep a message that nobody has asked for. */
static void keep_too_much(ls_group *group, void *argument)
{
    ls_request *send = NULL;
    unsigned char byte = 0;
    (void)argument;
    if (ls_group_rank(group) == 0) {
        CHECK_OK(ls_isend(group, sent, LONG, LS_U8, 1, 1, &send));
        CHECK(ls_send(group, &byte, 1, LS_U8, 1, 0) == LS_ERR_BUDGET);
        CHECK(strstr(ls_last_error(), "rank 1 (") != NULL);
        CHECK(strstr(ls_last_error(), "4194304 bytes from rank 0") != NULL);
        overwrite_stack();
        ls_request_free(&send);
        atomic_store(&stage, 1);
        return;
    }
    ls_memory_stats now;
    ls_memory_total(&now);
    ls_memory_set_budget(now.live_bytes + LONG / 2);
    CHECK(ls_recv(group, &byte, 1, LS_U8, 0, 0) == LS_ERR_BUDGET);
    overwrite_stack();
    ls_memory_set_budget(0);
    CHECK(ls_barrier(group) == LS_ERR_BUDGET);
    await(&stage, 1);
}

static void what_cannot_be_kept_fails_the_group(void **state)
{
    (void)state;
    atomic_store(&stage, 0);
    run_threads(2, keep_too_much, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_failed_is_in_no_list),
        cmocka_unit_test(what_cannot_be_kept_fails_the_group),
    };
    return cmocka_run_group_tests_name("messages_lost", tests, NULL, NULL);
}

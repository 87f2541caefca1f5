/*
 * Shared buffers are there when they are granted, and refused on all ranks when
 * they cannot be.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/meminfo.h"
#include "comm/api/shared_alloc.h"
#include "comm/state/segment.h"
#include "holding.h"
#include "ranks.h"
#include "testing.h"

enum { PART = 4 << 20, BLOCK = 512, WARM_UP = 10, POOR = 1 };

/* The bytes in the error are those of all parts, or little more. */
static void check_numbers(size_t parts)
{
    static const char before[] = "shared by 2 ranks: ";
    const char *text = strstr(ls_last_error(), before);
    size_t bytes, available;
    CHECK(text != NULL);
    CHECK(sscanf(
              text + strlen(before),
              "%zu bytes (communication) do not fit into memory; %zu bytes are "
              "available",
              &bytes, &available) == 2);
    CHECK(bytes >= parts && bytes <= parts + 3 * LSI_PAGE && available < bytes);
}

/* More than any machine has, on every rank; as much as this one has, on two. */
static void ask_for_too_much(ls_group *group, void *unused)
{
    const int64_t available = lsi_memory_available();
    const size_t sizes[] = {(size_t)1 << 40, (size_t)available / 10 * 6};
    void *buffer = NULL;
    (void)unused;
    CHECK(available > 0);
    for (int i = 0; i < WARM_UP; i++)
        CHECK(ls_shared_alloc(group, sizes[0], &buffer) == LS_ERR_MEMORY);
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        CHECK_OK(ls_barrier(group));
        const holding before = look(group);
        CHECK_OK(ls_barrier(group));
        CHECK(ls_shared_alloc(group, sizes[i], &buffer) == LS_ERR_MEMORY);
        CHECK(buffer == NULL);
        check_numbers(2 * sizes[i]);
        check_same(group, &before, "too much");
    }
}

static void what_is_not_there_is_refused(void **state)
{
    (void)state;
    run_processes(2, ask_for_too_much, NULL);
}

/* Filled before anybody has touched it, and then as usual. */
static void check_reserved(ls_group *group, void *unused)
{
    void *buffer = NULL;
    const long long all = (long long)PART * ls_group_size(group) / BLOCK;
    (void)unused;
    const holding before = look(group);
    CHECK_OK(ls_barrier(group));
    CHECK_OK(ls_shared_alloc(group, PART, &buffer));
    const holding reserved = look(group);
    CHECK(reserved.shared - before.shared >= all);
    CHECK_OK(ls_barrier(group));
    for (size_t i = 0; i < PART; i++)
        CHECK(((char *)buffer)[i] == 0);
    memset(buffer, 1, PART);
    CHECK_OK(ls_barrier(group));
    CHECK(look(group).shared - reserved.shared < all / 100);
    CHECK_OK(ls_shared_free(group, &buffer));
    CHECK_OK(lsi_shared_alloc_sparse(group, PART, &buffer));
    CHECK(look(group).shared - before.shared < all / 100);
    CHECK_OK(ls_shared_free(group, &buffer));
}

static void what_is_granted_is_there(void **state)
{
    (void)state;
    run_processes(2, check_reserved, NULL);
    run_processes(3, check_reserved, NULL);
}

/* From now on the kernel answers so if it is to populate memory. */
static void answer_populate(int error)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                 offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_POPULATE_WRITE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog program = {TEST_COUNT(steps), steps};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(0); /* not allowed here */
}

static void reserve_on_an_old_kernel(ls_group *group, void *unused)
{
    CHECK_OK(ls_barrier(group));
    answer_populate(EINVAL);
    check_reserved(group, unused);
}

static void an_old_kernel_fills_the_file(void **state)
{
    (void)state;
    run_processes(2, reserve_on_an_old_kernel, NULL);
}

/* One rank's part has no room; what the others have is given back. */
static void reserve_in_vain(ls_group *group, void *unused)
{
    void *buffer = NULL;
    (void)unused;
    CHECK_OK(ls_barrier(group));
    if (ls_group_rank(group) == POOR)
        answer_populate(ENOMEM);
    for (int i = 0; i < WARM_UP; i++)
        CHECK(ls_shared_alloc(group, PART, &buffer) == LS_ERR_MEMORY);
    CHECK_OK(ls_barrier(group));
    const holding before = look(group);
    CHECK_OK(ls_barrier(group));
    for (int i = 0; i < WARM_UP; i++)
        CHECK(ls_shared_alloc(group, PART, &buffer) == LS_ERR_MEMORY);
    CHECK(buffer == NULL);
    CHECK(strstr(ls_last_error(), "for the part of rank 1") != NULL);
    check_same(group, &before, "in vain");
}

static void one_rank_without_room_stops_all(void **state)
{
    (void)state;
    run_processes(3, reserve_in_vain, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_there_is_refused),
        cmocka_unit_test(what_is_granted_is_there),
        cmocka_unit_test(an_old_kernel_fills_the_file),
        cmocka_unit_test(one_rank_without_room_stops_all),
    };
    return cmocka_run_group_tests_name("reserve", tests, NULL, NULL);
}

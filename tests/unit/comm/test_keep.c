/*
 * Shared buffers that stay mapped when their group has been closed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "ranks.h"

static void check_kept(const ls_group *group, const unsigned char *mapping,
                       size_t bytes, const unsigned char *own)
{
    const int size = ls_group_size(group), rank = ls_group_rank(group);
    CHECK(bytes >= (size_t)size * (2 << 20));
    CHECK(own >= mapping && own + (2 << 20) <= mapping + bytes);
    const ptrdiff_t stride = rank > 0 ? (own - mapping) / rank : 0;
    for (int r = 0; r < size && stride > 0; r++)
        for (size_t i = 0; i < 2 << 20; i += 4093)
            CHECK(mapping[r * stride + (ptrdiff_t)i] == r + 1);
}

/* Memory of a closed group stays apart from later allocations of its job. */
static void keep(ls_group *group, void *argument)
{
    ls_group *part = NULL;
    void *data = NULL, *mapping = NULL, *later[4] = {0};
    size_t bytes = 0;
    (void)argument;
    CHECK_OK(ls_group_split(group, 0, 0, &part));
    CHECK_OK(ls_shared_alloc(part, 2 << 20, &data));
    unsigned char *const own = data;
    memset(own, ls_group_rank(group) + 1, 2 << 20);
    CHECK_OK(ls_barrier(group));
    CHECK_OK(ls_shared_keep(part, data, &mapping, &bytes));
    CHECK(ls_shared_peer(part, data, 0) == NULL);
    CHECK(ls_shared_keep(part, data, &mapping, &bytes) == LS_ERR_ARGUMENT);
    ls_group_close(&part);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(ls_shared_alloc(group, 2 << 20, &later[i]));
        memset(later[i], 99, 2 << 20);
    }
    CHECK_OK(ls_barrier(group));
    check_kept(group, mapping, bytes, own);
    for (int i = 0; i < 4; i++)
        CHECK_OK(ls_shared_free(group, &later[i]));
    check_kept(group, mapping, bytes, own);
    munmap(mapping, bytes);
}

static void refuse_to_keep(ls_group *group, void *argument)
{
    void *data = NULL, *mapping = NULL;
    size_t bytes = 0;
    (void)argument;
    CHECK_OK(ls_shared_alloc(group, 64, &data));
    CHECK(ls_shared_keep(group, data, &mapping, &bytes) == LS_ERR_UNSUPPORTED);
    CHECK(mapping == NULL && bytes == 0);
    CHECK_OK(ls_shared_free(group, &data));
}

static void buffers_can_be_kept(void **state)
{
    (void)state;
    for (int size = 1; size <= 3; size++)
        run_processes(size, keep, NULL);
    run_threads(1, keep, NULL);
    run_threads(2, refuse_to_keep, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_can_be_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The placement of memory: the parts of the region that belong to a rank, and
 * that the kernel takes the request for them.
 */
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/numa.h"
#include "comm/node/home.h"
#include "ranks.h"
#include "testing.h"

/* The pages of ranks are disjoint, inside the region, and cover nearly all of
 * it. */
static void parts_are_disjoint(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 5, 8, 17, 64, 65};
    for (size_t k = 0; k < TEST_COUNT(sizes); k++) {
        const lsi_region_layout at = lsi_region_layout_of(sizes[k]);
        unsigned char *owner = calloc(at.bytes / LSI_PAGE, 1);
        size_t pages = 0;
        assert_non_null(owner);
        for (int rank = 0; rank < sizes[k]; rank++) {
            lsi_range own[LSI_REGION_OWN];
            lsi_region_own(&at, rank, own);
            for (int i = 0; i < LSI_REGION_OWN; i++) {
                assert_int_equal(own[i].begin % LSI_PAGE, 0);
                assert_int_equal(own[i].end % LSI_PAGE, 0);
                assert_true(own[i].begin >= at.cells);
                assert_true(own[i].end <= at.bytes);
                for (size_t page = own[i].begin / LSI_PAGE;
                     page < own[i].end / LSI_PAGE; page++) {
                    assert_int_equal(owner[page], 0);
                    owner[page] = 1;
                    pages++;
                }
            }
        }
        /* Unowned pages are at the borders of parts, one each. */
        const size_t all = (at.bytes - at.cells) / LSI_PAGE;
        assert_true(pages + LSI_REGION_OWN * ((size_t)sizes[k] + 1) >= all);
        free(owner);
    }
}

/* A rank's cell and its receiving channels are in its part. */
static bool is_own(const ls_group *group, const void *data)
{
    const size_t at =
        (size_t)((const unsigned char *)data - group->memory.region);
    lsi_range own[LSI_REGION_OWN];
    lsi_region_own(&group->memory.layout, group->rank, own);
    for (int i = 0; i < LSI_REGION_OWN; i++) {
        if (at >= own[i].begin && at < own[i].end)
            return true;
    }
    return false;
}

static void parts_are_what_a_rank_uses(void **state)
{
    (void)state;
    enum { RANKS = 3 };
    ls_group *groups[RANKS];
    assert_ok(ls_group_open_threads(groups, RANKS));
    for (int rank = 0; rank < RANKS; rank++) {
        const ls_group *const g = groups[rank];
        for (uint64_t sequence = 0; sequence < LSI_CELLS; sequence++)
            assert_true(is_own(
                g, (unsigned char *)lsi_cell_of(g, sequence, rank) + LSI_PAGE));
        assert_true(is_own(g, lsi_window(g, rank)));
        assert_true(is_own(g, lsi_window(g, rank) + LSI_STAGING_BYTES - 1));
        for (int peer = 0; peer < RANKS; peer++) {
            const lsi_stream *const in = &g->streams.of[0][1][peer];
            const lsi_stream *const out = &groups[peer]->streams.of[0][0][rank];
            assert_ptr_equal(in->channel, out->channel);
            assert_true(is_own(g, in->channel->data + LSI_PAGE));
        }
    }
    for (int rank = 0; rank < RANKS; rank++)
        ls_group_close(&groups[rank]);
}

/* Where a kernel knows of nodes, there is a first one to ask for. */
static void the_kernel_takes_it(void **state)
{
    (void)state;
    ls_group *groups[2];
    lsi_cpuset nodes;
    assert_ok(ls_group_open_threads(groups, 2));
    assert_false(lsi_home_ask_for(groups[0], -1));
    assert_false(lsi_home_ask_for(groups[0], 1 << 20));
    if (lsi_numa_list(LSI_NUMA_FOLDER, "has_memory", &nodes) &&
        lsi_cpuset_has(&nodes, 0) && lsi_home_ask_for(groups[1], 0)) {
        int mode = -1;
        unsigned long mask[16] = {0};
        assert_int_equal(syscall(SYS_get_mempolicy, &mode, mask, 1024UL,
                                 lsi_window(groups[1], 1), MPOL_F_ADDR),
                         0);
        assert_int_equal(mode, MPOL_PREFERRED);
        assert_int_equal(mask[0], 1);
        assert_int_equal(syscall(SYS_get_mempolicy, &mode, mask, 1024UL,
                                 lsi_window(groups[0], 0), MPOL_F_ADDR),
                         0);
        assert_int_equal(mode, MPOL_DEFAULT); /* not this one's part */
    } else {
        print_message("this kernel has no memory policies\n");
    }
    for (int rank = 0; rank < 2; rank++)
        ls_group_close(&groups[rank]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_disjoint),
        cmocka_unit_test(parts_are_what_a_rank_uses),
        cmocka_unit_test(the_kernel_takes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

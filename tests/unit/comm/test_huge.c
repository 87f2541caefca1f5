/*
 * Shared memory by huge pages: whether a machine has them or not, bytes are the
 * same for all mappings, and those outside the range are let be.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/node/huge.h"
#include "comm/state/segment.h"
#include "testing.h"

enum { FILE_SIZE = 5 * LSI_HUGE_PAGE, ODD = 3 * LSI_PAGE };

static int make_file(void)
{
    const int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, FILE_SIZE), 0);
    return fd;
}

static void places(void **state)
{
    (void)state;
    const int fd = make_file();
    const uint64_t offsets[] = {0, LSI_PAGE, LSI_HUGE_PAGE, ODD};
    const size_t sizes[] = {1, LSI_PAGE, LSI_HUGE_PAGE, LSI_HUGE_PAGE + 1,
                            3 * LSI_HUGE_PAGE + ODD};
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 5; k++) {
            unsigned char *const at = lsi_map_shared(fd, offsets[i], sizes[k]);
            assert_true(at != MAP_FAILED);
            if (sizes[k] >= LSI_HUGE_PAGE)
                assert_int_equal((uintptr_t)at % LSI_HUGE_PAGE,
                                 offsets[i] % LSI_HUGE_PAGE);
            at[0] = (unsigned char)(i + 1);
            at[sizes[k] - 1] = (unsigned char)(i + 1);
            unsigned char there = 0;
            assert_int_equal(pread(fd, &there, 1, (off_t)offsets[i]), 1);
            assert_int_equal(there, i + 1);
            /* Memory after it no longer belongs to the mapping. */
            const size_t whole =
                (sizes[k] + LSI_PAGE - 1) / LSI_PAGE * LSI_PAGE;
            assert_int_equal(munmap(at, whole), 0);
        }
    }
    assert_ptr_equal(lsi_map_shared(-1, 0, FILE_SIZE), MAP_FAILED);
    close(fd);
}

/* Of each page the number, seen by two mappings before and after. */
static void contents(void **state)
{
    (void)state;
    const int fd = make_file();
    unsigned char *const one = lsi_map_shared(fd, 0, FILE_SIZE);
    unsigned char *const other = lsi_map_shared(fd, 0, FILE_SIZE);
    assert_true(one != MAP_FAILED && other != MAP_FAILED);
    const size_t pages = FILE_SIZE / LSI_PAGE;
    for (size_t i = 0; i < pages; i += 2)
        one[i * LSI_PAGE] = (unsigned char)(i / 2 + 1);
    lsi_use_huge_pages(one + ODD, 0);
    lsi_use_huge_pages(one + ODD, LSI_HUGE_PAGE);
    lsi_use_huge_pages(one + ODD, FILE_SIZE - 2 * ODD);
    for (size_t i = 0; i < pages; i++) {
        const unsigned char is = i % 2 == 0 ? (unsigned char)(i / 2 + 1) : 0;
        assert_int_equal(one[i * LSI_PAGE], is);
        assert_int_equal(other[i * LSI_PAGE], is);
        assert_int_equal(other[i * LSI_PAGE + LSI_PAGE - 1], 0);
    }
    other[LSI_HUGE_PAGE + 7] = 42;
    assert_int_equal(one[LSI_HUGE_PAGE + 7], 42);
    munmap(one, FILE_SIZE);
    munmap(other, FILE_SIZE);
    close(fd);
}

/* A sparse file stays so outside of the range. */
static void only_the_range(void **state)
{
    (void)state;
    const int fd = make_file();
    unsigned char present[FILE_SIZE / LSI_PAGE];
    unsigned char *const at = lsi_map_shared(fd, 0, FILE_SIZE);
    assert_true(at != MAP_FAILED);
    lsi_use_huge_pages(at + ODD, 3 * (size_t)LSI_HUGE_PAGE);
    assert_int_equal(mincore(at, FILE_SIZE, present), 0);
    for (size_t i = 0; i < sizeof(present); i++) {
        const size_t huge = i * LSI_PAGE / LSI_HUGE_PAGE;
        if (huge < 1 || huge > 2)
            assert_int_equal(present[i] & 1, 0);
    }
    munmap(at, FILE_SIZE);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places),
        cmocka_unit_test(contents),
        cmocka_unit_test(only_the_range),
    };
    return cmocka_run_group_tests_name("huge", tests, NULL, NULL);
}

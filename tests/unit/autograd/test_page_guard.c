/*
 * Pages that nobody uses are closed; those that a range in use touches are
 * open.
 */
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/autograd/params/page_guard.h"
#include "testing.h"

enum { PAGES = 8 };

static size_t page, in_page; /* bytes, elements of 2 bytes */
static unsigned char *memory;
static lsi_page_guard guard;
static int ends[2]; /* of a pipe */

/* The kernel does not write what the process may not read. */
static bool is_open(size_t at)
{
    return write(ends[1], memory + at * page + page / 2, 1) == 1;
}

/* One character a page: '.' closed, 'o' open. */
static void assert_pages(const char *expected)
{
    char found[PAGES + 1] = {0};
    for (size_t i = 0; i < PAGES; i++)
        found[i] = is_open(i) ? 'o' : '.';
    assert_string_equal(found, expected);
}

static lsi_range pages(double begin, double end)
{
    return (lsi_range){(size_t)(begin * (double)in_page),
                       (size_t)(end * (double)in_page)};
}

static int setup(void **state)
{
    (void)state;
    page = (size_t)sysconf(_SC_PAGESIZE);
    in_page = page / 2;
    memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_equal(pipe(ends), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close(ends[0]);
    close(ends[1]);
    lsi_page_guard_free(&guard);
    munmap(memory, PAGES * page);
    return 0;
}

static void kept_parts_stay_open(void **state)
{
    (void)state;
    const lsi_range kept[] = {pages(1.5, 2), pages(4, 4), pages(5.5, 6.01)};
    assert_ok(lsi_page_guard_new(&guard, memory, 2, PAGES * in_page, kept, 3));
    assert_pages(".o...oo.");
}

/* Pages that are inside only in part belong to somebody else, too. */
static void ends_stay_open(void **state)
{
    (void)state;
    assert_ok(lsi_page_guard_new(&guard, memory + 2, 2, 7 * in_page, NULL, 0));
    assert_pages("o......o");
    lsi_page_guard_free(&guard);
    assert_ok(lsi_page_guard_new(&guard, memory, 2, 7, NULL, 0));
    assert_ok(lsi_page_guard_open(&guard, (lsi_range){0, 7}));
    lsi_page_guard_close(&guard, (lsi_range){0, 7});
}

static void neighbours_share_a_page(void **state)
{
    (void)state;
    const lsi_range a = pages(0.5, 2.25), b = pages(2.25, 2.5);
    const lsi_range c = pages(2.5, 4);
    assert_ok(lsi_page_guard_new(&guard, memory, 2, PAGES * in_page, NULL, 0));
    assert_pages("........");
    assert_ok(lsi_page_guard_open(&guard, a));
    assert_pages("ooo.....");
    assert_ok(lsi_page_guard_open(&guard, c));
    assert_pages("oooo....");
    assert_ok(lsi_page_guard_open(&guard, b));
    lsi_page_guard_close(&guard, a);
    assert_pages("..oo....");
    lsi_page_guard_close(&guard, c);
    assert_pages("..o.....");
    lsi_page_guard_close(&guard, b);
    assert_pages("........");
}

static void values_stay(void **state)
{
    (void)state;
    const lsi_range all = pages(0, PAGES);
    memory[3 * page] = 7;
    assert_ok(lsi_page_guard_new(&guard, memory, 2, PAGES * in_page, NULL, 0));
    assert_ok(lsi_page_guard_open(&guard, all));
    assert_int_equal(memory[3 * page], 7);
    memory[4 * page] = 8;
    lsi_page_guard_close(&guard, all);
    assert_ok(lsi_page_guard_open(&guard, all));
    assert_int_equal(memory[4 * page], 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kept_parts_stay_open, setup, teardown),
        cmocka_unit_test_setup_teardown(ends_stay_open, setup, teardown),
        cmocka_unit_test_setup_teardown(neighbours_share_a_page, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(values_stay, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

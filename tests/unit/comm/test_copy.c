/*
 * Copies into memory that another rank reads, past the caches and not, on
 * processors whose stores wait for other cores and on others.
 */
#include "testing.h"

#include <string.h>

#include "base/cpu.h"
#include "comm/node/copy.h"

enum { MOST = 40000, MARGIN = 128 };

static bool stores_wait;

bool stores_wait_of_test(void) __asm__("__wrap_lsi_cpu_stores_wait");

bool stores_wait_of_test(void)
{
    return stores_wait;
}

typedef void copy_fn(const lsi_node_memory *node, void *to, const void *from,
                     size_t bytes);

static void past_caches(const lsi_node_memory *node, void *to, const void *from,
                        size_t bytes)
{
    (void)node;
    lsi_copy_past_caches(to, from, bytes);
}

/* All bytes arrive, and those around them stay. */
static void check(copy_fn *copy, const lsi_node_memory *node, size_t to,
                  size_t from, size_t bytes)
{
    static _Alignas(64) unsigned char source[MOST + MARGIN];
    static _Alignas(64) unsigned char target[MOST + 2 * MARGIN];
    for (size_t i = 0; i < sizeof(source); i++)
        source[i] = (unsigned char)(i * 31 + i / 256);
    memset(target, 0xee, sizeof(target));
    copy(node, target + MARGIN + to, source + from, bytes);
    for (size_t i = 0; i < sizeof(target); i++) {
        const bool inside = i >= MARGIN + to && i - MARGIN - to < bytes;
        assert_int_equal(target[i],
                         inside ? source[from + i - MARGIN - to] : 0xee);
    }
}

static void check_sizes(copy_fn *copy)
{
    static const size_t sizes[] = {0,    1,    31,   32,   33,   63,
                                   64,   65,   96,   255,  256,  1024,
                                   1025, 2048, 2081, 4096, 4097, 32768};
    static const size_t offsets[] = {0, 32, 37};
    for (int ways = 0; ways < 4; ways++) {
        const lsi_node_memory node = {.past_caches = ways % 2 == 1};
        stores_wait = ways / 2 == 1;
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
            for (size_t o = 0; o < 9; o++)
                check(copy, &node, offsets[o / 3], offsets[o % 3], sizes[s]);
    }
}

static void every_byte_reaches_a_window(void **state)
{
    (void)state;
    check_sizes(lsi_copy_out);
}

static void every_byte_reaches_a_cell(void **state)
{
    (void)state;
    check_sizes(lsi_copy_to_cell);
}

static void every_byte_passes_the_caches(void **state)
{
    (void)state;
    check_sizes(past_caches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_reaches_a_window),
        cmocka_unit_test(every_byte_reaches_a_cell),
        cmocka_unit_test(every_byte_passes_the_caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

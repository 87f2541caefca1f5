/* From times to a selection line: what wins, and where ranges end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/bench/tune.h"

enum { FLAT, DIRECT, COPY, STAGED };

static lsi_tune example(void)
{
    return (lsi_tune){.operation = "all_reduce",
                      .algorithms = {{"flat", .in_cells = true},
                                     {"direct", .direct = true},
                                     {"copy", .limited = true},
                                     {"staged", false, false, false}},
                      .n_algorithms = 4,
                      .margin = 0.05};
}

/* Times of flat, direct, copy and staged, in microseconds; 0: cannot be. */
static void add(lsi_tune *tune, size_t bytes, const double *private_memory,
                const double *shared)
{
    lsi_tune_times *times = &tune->times[tune->n_sizes++];
    times->bytes = bytes;
    for (int i = 0; i < tune->n_algorithms; i++) {
        times->seconds[LSI_TUNE_PRIVATE][i] = private_memory[i] * 1e-6;
        times->seconds[LSI_TUNE_SHARED][i] = shared[i] * 1e-6;
    }
}

#define TIMES(...) ((const double[4]){__VA_ARGS__})

static void expect(lsi_tune *tune, const char *line)
{
    char text[512];
    lsi_tune_choose(tune);
    assert_string_equal(lsi_tune_line(tune, 32768, text, sizeof(text)), line);
}

static void the_fastest_wins(void **state)
{
    (void)state;
    lsi_tune t = example();
    add(&t, 1024, TIMES(1, 0, 5, 4), TIMES(1, 2, 5, 4));
    add(&t, 4096, TIMES(9, 0, 8, 7), TIMES(9, 2, 8, 7));
    add(&t, 16384, TIMES(90, 0, 20, 40), TIMES(90, 10, 20, 40));
    /* The ends lie half way; what may not work has staged behind it. */
    expect(&t, "all_reduce:0-2k:flat;2k-8k:direct|staged;"
               "8k-inf:direct|copy|staged");
    assert_int_equal(t.choices[1].shared, DIRECT);
    assert_int_equal(t.choices[1].other, STAGED);
    assert_int_equal(t.choices[0].other, FLAT);
}

/* It does not work between nodes, so it is limited, too. */
static void staged_is_named_once(void **state)
{
    (void)state;
    lsi_tune t = example();
    t.algorithms[STAGED].limited = true;
    add(&t, 4096, TIMES(9, 0, 8, 7), TIMES(9, 2, 8, 7));
    expect(&t, "all_reduce:0-inf:direct|staged");
}

/* The usual algorithm stays unless another one wins by more than 5%. */
static void the_usual_stays(void **state)
{
    (void)state;
    lsi_tune t = example();
    add(&t, 16, TIMES(103, 0, 900, 100), TIMES(101, 300, 900, 100));
    expect(&t, "all_reduce:0-32k:flat");
    t = example();
    add(&t, 16, TIMES(103, 0, 900, 100), TIMES(103, 300, 900, 100));
    expect(&t, "all_reduce:0-inf:staged");
}

/* Direct and staged are usual, and a tenth slower. */
static void the_margin_decides(void **state)
{
    (void)state;
    lsi_tune t = example();
    t.usual[0] = (lsi_tune_choice){DIRECT, STAGED};
    add(&t, 65536, TIMES(0, 0, 100, 110), TIMES(0, 100, 100, 110));
    expect(&t, "all_reduce:0-inf:direct|copy|staged");
    t.margin = 0.2;
    expect(&t, "all_reduce:0-inf:direct|staged");
}

static void like_sizes_make_one_range(void **state)
{
    (void)state;
    lsi_tune t = example();
    add(&t, 1024, TIMES(1, 0, 9, 2), TIMES(1, 3, 9, 2));
    /* Flat is slower, but by less than what measuring varies. */
    add(&t, 4096, TIMES(2.04, 0, 9, 2), TIMES(2, 3, 9, 2));
    add(&t, 65536, TIMES(0, 0, 9, 5), TIMES(0, 6, 9, 5));
    expect(&t, "all_reduce:0-16k:flat;16k-inf:staged");
}

static void cells_end_where_they_are_full(void **state)
{
    (void)state;
    lsi_tune t = example();
    add(&t, 16384, TIMES(1, 0, 9, 2), TIMES(1, 3, 9, 2));
    expect(&t, "all_reduce:0-32k:flat");
    add(&t, 1 << 20, TIMES(0, 0, 9, 5), TIMES(0, 1, 9, 5));
    expect(&t, "all_reduce:0-32k:flat;32k-inf:direct|staged");
}

static void both_kinds_of_memory_count(void **state)
{
    (void)state;
    lsi_tune t = example();
    /* Flat is best for private memory, but costs much for shared. */
    add(&t, 8192, TIMES(4, 0, 9, 5), TIMES(4, 1, 9, 5));
    expect(&t, "all_reduce:0-inf:direct|staged");
    /* Nothing but staged can serve what is private: it serves all. */
    lsi_tune u = example();
    add(&u, 1 << 20, TIMES(0, 0, 0, 8), TIMES(0, 9, 0, 8));
    expect(&u, "all_reduce:0-inf:staged");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_wins),
        cmocka_unit_test(staged_is_named_once),
        cmocka_unit_test(the_usual_stays),
        cmocka_unit_test(the_margin_decides),
        cmocka_unit_test(like_sizes_make_one_range),
        cmocka_unit_test(cells_end_where_they_are_full),
        cmocka_unit_test(both_kinds_of_memory_count),
    };
    return cmocka_run_group_tests_name("tune", tests, NULL, NULL);
}

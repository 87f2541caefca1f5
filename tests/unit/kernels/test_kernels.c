/*
 * Runs every check at every level of the machine, and those of kernels whose
 * bits vary with the portable kernels, too.
 */
#include <stdio.h>

#include "harness.h"
#include "testing.h"

typedef struct row {
    const char *name;
    void (*check)(const lsi_kernels *k);
    bool varies;
} row;

static const row rows[] = {
#define X(name, args)      {#name, check_##name, false},
#define VARIES(name, args) {#name, check_##name, true},
#include "array/kernels/kernels.def"
#include "fold/fold.def"
#undef X
};

typedef struct run {
    const row *what;
    lsi_kernels table;
    char name[64];
} run;

static void run_check(void **state)
{
    const run *r = *state;
    random_seed(20240229);
    r->what->check(&r->table);
    release_all();
}

static void levels_beyond_the_machine_are_refused(void **state)
{
    (void)state;
    lsi_kernels table;
    for (int isa = 0; isa < LSI_ISA_COUNT; isa++) {
        if (lsi_isa_available((lsi_isa)isa)) {
            assert_ok(lsi_kernels_at((lsi_isa)isa, &table));
            assert_int_equal(table.isa, isa);
        } else {
            assert_error(lsi_kernels_at((lsi_isa)isa, &table),
                         LS_ERR_UNSUPPORTED, lsi_isa_name((lsi_isa)isa));
        }
    }
}

static void the_process_has_the_wanted_level(void **state)
{
    (void)state;
    lsi_isa wanted;
    assert_ok(lsi_isa_from_env(&wanted));
    assert_int_equal(lsi_kernels_get()->isa, wanted);
    assert_ptr_equal(lsi_kernels_get(), lsi_kernels_get());
}

/* The levels are really different code: a slot that only copies would pass. */
static void levels_replace_the_reference(void **state)
{
    (void)state;
    lsi_kernels ref, high;
    assert_ok(lsi_kernels_at(LSI_ISA_REF, &ref));
    assert_ok(lsi_kernels_at(lsi_cpu_isa(), &high));
    if (lsi_cpu_isa() > LSI_ISA_REF)
        assert_true(ref.reduce != high.reduce && ref.sgd != high.sgd);
}

/* Appends the runs of a level; returns how many there are then. */
static size_t add_runs(run *runs, size_t n, lsi_isa isa, bool portable)
{
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        run *r = &runs[n];
        r->what = &rows[i];
        if (portable && !rows[i].varies)
            continue;
        if ((portable ? lsi_kernels_portable_at
                      : lsi_kernels_at)(isa, &r->table) != LS_OK)
            break;
        snprintf(r->name, sizeof(r->name), "%s at %s%s", rows[i].name,
                 lsi_isa_name(isa), portable ? ", portable" : "");
        n++;
    }
    return n;
}

int main(void)
{
    enum { MOST = 2 * LSI_ISA_COUNT * TEST_COUNT(rows) };
    static run runs[MOST];
    static struct CMUnitTest tests[MOST];
    size_t n = 0;
    for (int isa = 0; isa < LSI_ISA_COUNT; isa++) {
        n = add_runs(runs, n, (lsi_isa)isa, false);
        n = add_runs(runs, n, (lsi_isa)isa, true);
    }
    for (size_t i = 0; i < n; i++)
        tests[i] = (struct CMUnitTest){.name = runs[i].name,
                                       .test_func = run_check,
                                       .initial_state = &runs[i]};
    const struct CMUnitTest general[] = {
        cmocka_unit_test(levels_beyond_the_machine_are_refused),
        cmocka_unit_test(the_process_has_the_wanted_level),
        cmocka_unit_test(levels_replace_the_reference)};
    const int failed =
        cmocka_run_group_tests_name("the table", general, NULL, NULL);
    return failed + _cmocka_run_group_tests("kernels", tests, n, NULL, NULL);
}

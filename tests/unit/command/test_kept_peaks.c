/*
 * For how long the rates of a machine hold, of machines and times that are made
 * up; and what the file that keeps them may be.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands/kept_peaks.h"
#include "testing.h"

enum { DAY = 24 * 60 * 60 };

static const int64_t noon = 1764158400; /* 2025-11-26, 12:00 UTC */

static const lsi_kept_peaks measured = {
    .peaks = {.f32 = 5e10, .bf16 = 1e11, .bytes = 1e10},
    .place = {"EPYC", "avx512", "6.1.0-31", "0-3"},
    .measured = 1764158400,
    .others = 0.9, /* not more than a quarter */
    .available = 4,
};

static bool expired(const lsi_peaks_place *here, int64_t now, const char *why)
{
    char text[LSI_PEAKS_WHY] = "";
    const bool is = lsi_kept_peaks_expired(&measured, here, now, false, text);
    assert_string_equal(text, why);
    return is;
}

static void by_age(void **state)
{
    const lsi_peaks_place *const here = &measured.place;
    (void)state;
    assert_false(expired(here, noon, ""));
    assert_false(expired(here, noon + 29 * DAY, ""));
    assert_false(expired(here, noon + 30 * DAY, ""));
    assert_true(
        expired(here, noon + 30 * DAY + 1, "are more than 30 days old"));
    assert_true(
        expired(here, noon + 4000 * (int64_t)DAY, "are more than 30 days old"));
    assert_true(expired(here, noon - 1, "have a date in the future"));
}

static void by_place(void **state)
{
    static const struct {
        lsi_peaks_place here;
        const char *why;
    } all[] = {
        {{"Xeon", "avx512", "6.1.0-31", "0-3"},
         "were measured with the processor 'EPYC' (now: 'Xeon')"},
        {{"EPYC", "avx512", "6.12.1", "0-3"},
         "were measured with the kernel '6.1.0-31' (now: '6.12.1')"},
        {{"EPYC", "avx512", "6.1.0-31", "0-2"},
         "were measured with the CPU set '0-3' (now: '0-2')"},
        {{"EPYC", "avx2", "6.1.0-31", "0-3"},
         "were measured with the instruction set 'avx512' (now: 'avx2')"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        assert_true(expired(&all[i].here, noon, all[i].why));
}

/* Rates of a busy machine hold for those who ask for them only. */
static void by_other_processes(void **state)
{
    lsi_kept_peaks kept = measured;
    char why[LSI_PEAKS_WHY] = "";
    (void)state;
    assert_false(lsi_kept_peaks_are_busy(&kept));
    kept.others = 1.25;
    assert_true(lsi_kept_peaks_are_busy(&kept));
    assert_false(lsi_kept_peaks_expired(&kept, &kept.place, noon, true, why));
    assert_true(lsi_kept_peaks_expired(&kept, &kept.place, noon, false, why));
    assert_string_equal(why, "were measured while other processes used 1.2 of "
                             "the 4 CPUs");
    assert_true(
        lsi_kept_peaks_expired(&kept, &kept.place, noon + 31 * DAY, true, why));
}

static void this_machine(void **state)
{
    lsi_kept_peaks kept = measured;
    lsi_peaks_place again;
    char why[LSI_PEAKS_WHY], date[LSI_PEAKS_DATE];
    (void)state;
    lsi_peaks_place_here(&kept.place);
    lsi_peaks_place_here(&again);
    assert_false(lsi_kept_peaks_expired(&kept, &again, noon + DAY, false, why));
    setenv("TZ", "UTC", 1);
    lsi_peaks_date(noon, date);
    assert_string_equal(date, "2025-11-26");
}

static void a_file(void **state)
{
    char folder[] = "/tmp/kept-peaks-XXXXXX", path[96], made[64];
    lsi_kept_peaks found;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(made, sizeof(made), "%s/lockstep", folder);
    snprintf(path, sizeof(path), "%s/peaks-4-threads.json", made);
    assert_false(lsi_kept_peaks_read(path, &found));
    assert_ok(lsi_kept_peaks_write(path, &measured));
    assert_true(lsi_kept_peaks_read(path, &found));
    assert_memory_equal(&found.peaks, &measured.peaks, sizeof(found.peaks));
    assert_string_equal(found.place.cpu, "EPYC");
    assert_string_equal(found.place.isa, "avx512");
    assert_string_equal(found.place.kernel, "6.1.0-31");
    assert_string_equal(found.place.cpus, "0-3");
    assert_int_equal(found.measured, noon);
    assert_true(found.others == 0.9);
    assert_int_equal(found.available, 4);
    unlink(path);
    rmdir(made);
    rmdir(folder);
}

/* Rates without their date, or that no machine has, are as if there were none.
 */
static void no_such_file(void **state)
{
    static const char *const all[] = {"measured",      "machine", "f32",
                                      "bf16",          "bytes",   "others_cpus",
                                      "available_cpus"};
    lsi_kept_peaks found;
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        json_t *const json = lsi_kept_peaks_json(&measured);
        json_object_set_new(json, all[i], json_string("x"));
        assert_false(lsi_kept_peaks_of_json(json, &found));
        json_object_del(json, all[i]);
        assert_false(lsi_kept_peaks_of_json(json, &found));
        json_decref(json);
    }
    json_t *const json = lsi_kept_peaks_json(&measured);
    assert_true(lsi_kept_peaks_of_json(json, &found));
    json_object_set_new(json, "f32", json_integer(0));
    assert_false(lsi_kept_peaks_of_json(json, &found));
    json_decref(json);
}

static void the_place_of_the_file(void **state)
{
    char path[LSI_PEAKS_PATH];
    (void)state;
    setenv("HOME", "/home/x", 1);
    setenv("XDG_CACHE_HOME", "/var/y", 1);
    assert_true(lsi_kept_peaks_path(3, path));
    assert_string_equal(path, "/var/y/lockstep/peaks-3-threads.json");
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_true(lsi_kept_peaks_path(3, path));
    assert_string_equal(path, "/home/x/.cache/lockstep/peaks-3-threads.json");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_false(lsi_kept_peaks_path(3, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_age),
        cmocka_unit_test(by_place),
        cmocka_unit_test(by_other_processes),
        cmocka_unit_test(this_machine),
        cmocka_unit_test(a_file),
        cmocka_unit_test(no_such_file),
        cmocka_unit_test(the_place_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

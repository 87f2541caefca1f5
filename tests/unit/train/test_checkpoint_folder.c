/*
 * The folder of a run: what a save removes and what it must not, and what there
 * is to go on from.
 */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_model.h"
#include "model/checkpoint/cache.h"
#include "testing.h"

static void damage(const plan *p, int64_t step)
{
    flip_byte(file_of(p, step, LSI_MODEL_FILE), 500);
}

static void tear(const plan *p, int64_t step)
{
    assert_int_equal(unlink(file_of(p, step, LSI_MANIFEST_FILE).text), 0);
}

static void write_file(lsi_path path)
{
    FILE *file = fopen(path.text, "w");
    assert_non_null(file);
    assert_true(fputs("precious", file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* ---- what is removed ----------------------------------------------------- */

static void a_damaged_newer_one_costs_nothing(void **state)
{
    (void)state;
    plan p = new_plan();
    save_elsewhere(&p, 5);
    save_elsewhere(&p, 10);
    damage(&p, 10);
    p.keep = 1;
    collect_warnings();
    for (int64_t step = 6; step <= 8; step++)
        save_step(&p, step);
    assert_int_equal(count_warnings("' is not intact: "), 1);
    assert_string_equal(steps_of(&p), "10 8");
    p.steps = 3;
    expect_ok(&p, 2, load);
    assert_int_equal(p.opened, 8);
    discard(&p);
}

static void damaged_ones_are_not_counted(void **state)
{
    (void)state;
    plan p = new_plan();
    for (int64_t step = 4; step <= 8; step++)
        save_elsewhere(&p, step);
    damage(&p, 7);
    tear(&p, 6);
    damage(&p, 8);
    p.keep = 2;
    collect_warnings();
    save_step(&p, 9);
    /* A folder without a manifest is not a checkpoint. */
    assert_string_equal(steps_of(&p), "9 8 7 5");
    assert_int_equal(count_warnings("does not count among the checkpoints"), 2);
    save_step(&p, 11);
    assert_string_equal(steps_of(&p), "11 9");
    discard(&p);
}

static void higher_steps_of_another_run_cost_nothing(void **state)
{
    (void)state;
    plan p = new_plan();
    save_elsewhere(&p, 100);
    save_elsewhere(&p, 101);
    p.keep = 2;
    collect_warnings();
    for (int64_t step = 1; step <= 3; step++)
        save_step(&p, step);
    assert_int_equal(
        count_warnings("holds checkpoints newer than step 1, which was just "
                       "saved (number: 2, newest: step 101)"),
        1);
    assert_string_equal(steps_of(&p), "101 100 3 2");
    discard(&p);
}

/* The save of this process is not read again; that of another one is. */
static void each_is_read_once(void **state)
{
    (void)state;
    plan p = new_plan();
    p.keep = 2;
    save_elsewhere(&p, 4);
    save_step(&p, 5);
    damage(&p, 4);
    save_step(&p, 6);
    assert_string_equal(steps_of(&p), "6 5");
    damage(&p, 5);
    /* An opened checkpoint was also read. */
    expect_ok(&p, 1, load);
    damage(&p, 6);
    save_step(&p, 7);
    assert_string_equal(steps_of(&p), "7 6");
    discard(&p);
}

static void torn_ones_go_with_a_later_save(void **state)
{
    (void)state;
    plan p = new_plan();
    for (int64_t step = 5; step <= 7; step++)
        save_elsewhere(&p, step);
    for (int64_t step = 5; step <= 7; step++)
        tear(&p, step);
    write_file(file_of(&p, 5, LSI_MODEL_FILE ".tmp-0123456789abcdef"));
    save_step(&p, 6); /* all of them stay that are not older */
    assert_string_equal(steps_of(&p), "7 6");
    discard(&p);
}

static void foreign_files_stay(void **state)
{
    (void)state;
    plan p = new_plan();
    p.keep = 1;
    save_elsewhere(&p, 5);
    const lsi_path notes = file_of(&p, 5, "notes.txt");
    const lsi_path near = file_of(&p, 5, "rank-1-of-2.safetensors");
    write_file(notes);
    write_file(near);
    collect_warnings();
    save_step(&p, 6);
    save_step(&p, 7);
    assert_int_equal(count_warnings("files that do not belong to a checkpoint"),
                     1);
    assert_true(exists(notes) && exists(near));
    assert_false(exists(file_of(&p, 5, LSI_MODEL_FILE)));
    assert_string_equal(steps_of(&p), "7 5");
    /* A save of that step leaves them in place. */
    p.keep = 0;
    save_step(&p, 5);
    assert_true(exists(notes));
    unlink(notes.text);
    unlink(near.text);
    discard(&p);
}

/* ---- links --------------------------------------------------------------- */

static void links_are_not_followed(void **state)
{
    (void)state;
    plan p = new_plan(), other = new_plan();
    p.keep = 1;
    save_elsewhere(&other, 3);
    tear(&other, 3);
    const lsi_path kept = file_of(&other, 3, LSI_MODEL_FILE);
    const lsi_path link = lsi_step_folder(p.folder, 3);
    assert_int_equal(symlink(lsi_step_folder(other.folder, 3).text, link.text),
                     0);
    /* A link among the files of a step goes, and not what it names. */
    save_elsewhere(&p, 4);
    const lsi_path file = file_of(&p, 4, "rank-00007-of-00008.safetensors");
    assert_int_equal(symlink(kept.text, file.text), 0);
    save_step(&p, 5);
    save_step(&p, 6);
    assert_string_equal(steps_of(&p), "6 3");
    assert_true(exists(kept));
    p.step = 3;
    expect_error(&p, 2, save, "is a link or a file, not a checkpoint");
    assert_true(exists(kept) && exists(link));
    unlink(link.text);
    discard(&other);
    discard(&p);
}

/* Nor is a link to a whole checkpoint counted: it cannot be removed. */
static void links_are_not_counted(void **state)
{
    (void)state;
    plan p = new_plan(), other = new_plan();
    p.keep = 2;
    save_elsewhere(&other, 5);
    save_elsewhere(&p, 3);
    save_elsewhere(&p, 4);
    const lsi_path link = lsi_step_folder(p.folder, 5);
    assert_int_equal(symlink(lsi_step_folder(other.folder, 5).text, link.text),
                     0);
    expect_ok(&p, 1, load);
    assert_int_equal(p.opened, 5);
    save_step(&p, 6);
    assert_string_equal(steps_of(&p), "6 5 4");
    unlink(link.text);
    discard(&other);
    discard(&p);
}

/* ---- what is whole ------------------------------------------------------- */

static void manifests_are_of_their_step(void **state)
{
    (void)state;
    plan p = new_plan();
    save_elsewhere(&p, 4);
    save_elsewhere(&p, 5);
    assert_int_equal(rename(lsi_step_folder(p.folder, 5).text,
                            lsi_step_folder(p.folder, 9).text),
                     0);
    collect_warnings();
    expect_ok(&p, 2, load);
    assert_int_equal(count_warnings("gives step 5, but the name of the folder"),
                     1);
    assert_int_equal(p.opened, 4);
    discard(&p);
}

/* ---- what there is to go on from ----------------------------------------- */

static void expect_status(plan *p, ls_status status, const char *what)
{
    expect_error(p, 2, load, what);
    assert_int_equal(p->status[0], status);
    assert_int_equal(p->status[1], status);
}

static void nothing_damage_and_no_folder_differ(void **state)
{
    (void)state;
    plan p = new_plan(), nowhere = p, file = p, below = p;
    snprintf(nowhere.folder, sizeof nowhere.folder, "%.40s/a/b", p.folder);
    expect_status(&nowhere, LS_ERR_NOT_FOUND, "no checkpoint found in");
    expect_status(&p, LS_ERR_NOT_FOUND, "no checkpoint found in");
    save_elsewhere(&p, 5);
    tear(&p, 5);
    expect_status(&p, LS_ERR_NOT_FOUND, "no checkpoint found in");
    save_elsewhere(&p, 4);
    damage(&p, 4);
    expect_status(&p, LS_ERR_FORMAT, "is damaged: its checksum does not match");
    snprintf(file.folder, sizeof file.folder, "%.40s/.lock", p.folder);
    expect_status(&file, LS_ERR_IO, "Not a directory");
    snprintf(below.folder, sizeof below.folder, "%.40s/.lock/x", p.folder);
    expect_status(&below, LS_ERR_IO, "Not a directory");
    discard(&p);
}

static void open_without_a_name(ls_group *group, void *opaque)
{
    ls_checkpoint *c;
    (void)opaque;
    CHECK(ls_checkpoint_open(&c, group, "") == LS_ERR_ARGUMENT);
}

static void no_name_is_no_folder(void **state)
{
    (void)state;
    run_threads(2, open_without_a_name, NULL);
}

/* A warning is given once, however many others there are. */
static void warnings_are_remembered(void **state)
{
    enum { KINDS = 1000 };
    char kind[32];
    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < KINDS; i++) {
            snprintf(kind, sizeof(kind), "warning %d", i);
            assert_int_equal(lsi_checkpoint_cache_is_first(kind), pass == 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_newer_one_costs_nothing),
        cmocka_unit_test(damaged_ones_are_not_counted),
        cmocka_unit_test(higher_steps_of_another_run_cost_nothing),
        cmocka_unit_test(each_is_read_once),
        cmocka_unit_test(torn_ones_go_with_a_later_save),
        cmocka_unit_test(foreign_files_stay),
        cmocka_unit_test(links_are_not_followed),
        cmocka_unit_test(links_are_not_counted),
        cmocka_unit_test(manifests_are_of_their_step),
        cmocka_unit_test(nothing_damage_and_no_folder_differ),
        cmocka_unit_test(no_name_is_no_folder),
        cmocka_unit_test(
            warnings_are_remembered), /* and what was read is not */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

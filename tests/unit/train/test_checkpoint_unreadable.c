/*
 * Checkpoints that cannot be read, or that something other than a folder of
 * files stands for: they are passed over, and nothing of them is lost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_model.h"
#include "model/checkpoint/find.h"
#include "testing.h"

/* A link to `target`, or a FIFO, in place of a file. */
static void put_link(const plan *p, const char *name, const char *target)
{
    const lsi_path path = file_of(p, 5, name);
    unlink(path.text);
    if (target != NULL)
        assert_int_equal(symlink(target, path.text), 0);
    else
        assert_int_equal(mkfifo(path.text, 0600), 0);
}

/* Neither read without end nor waited for. */
static void odd_files_are_damage(void **state)
{
    (void)state;
    static const char *const names[] = {LSI_MODEL_FILE, LSI_MANIFEST_FILE,
                                        "rank-00000-of-00001.safetensors"};
    static const char *const targets[] = {"/dev/zero", "/tmp", NULL};
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        plan p = new_plan();
        save_elsewhere(&p, 4);
        save_elsewhere(&p, 5);
        for (size_t k = 0; k < TEST_COUNT(targets); k++) {
            put_link(&p, names[i], targets[k]);
            collect_warnings();
            expect_ok(&p, 2, load);
            assert_int_equal(count_warnings("not a regular file"), 1);
            assert_int_equal(p.opened, 4);
        }
        discard(&p);
    }
}

/* Only what is certainly damaged makes place for a save of its step. */
static void what_cannot_be_told_stays(void **state)
{
    (void)state;
    plan p = new_plan();
    save_elsewhere(&p, 5);
    put_link(&p, LSI_MANIFEST_FILE, NULL);
    expect_error(&p, 2, save, "is a FIFO, not a regular file");
    assert_true(exists(file_of(&p, 5, LSI_MODEL_FILE)));
    assert_true(exists(file_of(&p, 5, LSI_MANIFEST_FILE)));
    unlink(file_of(&p, 5, LSI_MANIFEST_FILE).text);
    save_step(&p, 5);
    discard(&p);
}

/* Makes the file one that cannot be read, of the i-th kind. */
static void make_unreadable(const plan *p, const char *name, size_t i)
{
    const lsi_path path = file_of(p, 5, name);
    switch (i) {
    case 0:
        put_link(p, name, NULL);
        break;
    case 1:
        put_link(p, name, name); /* to itself */
        break;
    case 2:
        put_link(p, name, "/dev/null");
        break;
    case 3:
        unlink(path.text);
        assert_int_equal(mkdir(path.text, 0777), 0);
        break;
    default:
        unlink(path.text);
        assert_int_equal(mknod(path.text, S_IFSOCK | 0600, 0), 0);
    }
}

static void remove_aside(const plan *p, const char *name)
{
    const lsi_path path = lsi_path_in(p->folder, name);
    char command[sizeof path.text + 16];
    assert_true(exists(path));
    snprintf(command, sizeof command, "rm -r '%s'", path.text);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
}

static void expect_opened(plan *p, int64_t step)
{
    p->steps = -1;
    expect_ok(p, 2, load);
    assert_int_equal(p->opened, step);
}

static void save_of_steps(plan *p, int64_t step)
{
    p->steps = (int)step;
    save_step(p, step);
}

/* The run goes on from the older one, saves that step, and so it does again. */
static void what_cannot_be_read_is_set_aside(void **state)
{
    enum { KINDS = 5 };
    static const char *const names[] = {LSI_MODEL_FILE, LSI_MANIFEST_FILE,
                                        "rank-00000-of-00001.safetensors"};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(names) * KINDS; i++) {
        plan p = new_plan();
        p.steps = 4;
        save_elsewhere(&p, 4);
        p.steps = 5;
        save_elsewhere(&p, 5);
        make_unreadable(&p, names[i / KINDS], i % KINDS);
        expect_opened(&p, 4);
        collect_warnings();
        save_of_steps(&p, 5);
        assert_int_equal(count_warnings("It was renamed to"), 1);
        expect_opened(&p, 5);
        expect_error(&p, 2, save, "already contains a checkpoint");
        make_unreadable(&p, "rank-00001-of-00002.safetensors", i % KINDS);
        expect_opened(&p, 4);
        p.keep = 1;
        save_of_steps(&p, 5);
        assert_string_equal(steps_of(&p), "5");
        remove_aside(&p, "unreadable-step-000000000005");
        remove_aside(&p, "unreadable-step-000000000005-2");
        discard(&p);
    }
}

/* Also by another name of the folder, and if it can be read by then. */
static void what_could_not_be_read_is_kept_whole(void **state)
{
    (void)state;
    plan p = new_plan(), other = p;
    p.steps = 4;
    save_elsewhere(&p, 4);
    p.steps = 5;
    save_elsewhere(&p, 5);
    const lsi_path path = file_of(&p, 5, LSI_MODEL_FILE);
    const lsi_path beside = lsi_path_in(p.folder, "beside");
    assert_int_equal(rename(path.text, beside.text), 0);
    put_link(&p, LSI_MODEL_FILE, NULL);
    snprintf(other.folder, sizeof other.folder, "%.40s/", p.folder);
    expect_opened(&other, 4);
    assert_int_equal(rename(beside.text, path.text), 0);
    save_of_steps(&p, 5);
    const char *const aside = "unreadable-step-000000000005";
    assert_ok(lsi_checkpoint_verify(lsi_path_in(p.folder, aside).text));
    remove_aside(&p, aside);
    expect_opened(&p, 5);
    discard(&p);
}

/* A name without a folder behind it, and remains that cannot be removed. */
static void what_is_no_folder_is_set_aside(void **state)
{
    (void)state;
    plan p = new_plan();
    p.steps = 4;
    save_elsewhere(&p, 4);
    FILE *const file = fopen(lsi_step_folder(p.folder, 5).text, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    const lsi_path link = lsi_step_folder(p.folder, 6);
    assert_int_equal(symlink("step-000000000006", link.text), 0);
    save_elsewhere(&p, 7);
    unlink(file_of(&p, 7, LSI_MANIFEST_FILE).text);
    unlink(file_of(&p, 7, LSI_MODEL_FILE).text);
    assert_int_equal(mkdir(file_of(&p, 7, LSI_MODEL_FILE).text, 0777), 0);
    p.steps = -1;
    expect_opened(&p, 4);
    for (int64_t step = 5; step <= 7; step++)
        save_of_steps(&p, step);
    assert_string_equal(steps_of(&p), "7 6 5 4");
    remove_aside(&p, "unreadable-step-000000000005");
    remove_aside(&p, "unreadable-step-000000000006");
    remove_aside(&p, "unreadable-step-000000000007");
    discard(&p);
}

/* Whatever may be a whole one keeps a run from starting over. */
static void what_cannot_be_examined_is_not_nothing(void **state)
{
    (void)state;
    int64_t newest;
    plan p = new_plan();
    save_elsewhere(&p, 5);
    make_unreadable(&p, LSI_MANIFEST_FILE, 1);
    expect_error(&p, 2, load, "no intact checkpoint found in");
    assert_int_equal(p.status[0], LS_ERR_FORMAT);
    assert_ok(lsi_steps_newest(p.folder, &newest));
    assert_int_equal(newest, 5);
    discard(&p);
}

static void remove_and_check(ls_group *group, void *opaque)
{
    const plan *const p = opaque;
    const int rank = ls_group_rank(group);
    const lsi_path gone = lsi_step_folder(p->folder, 5);
    const char *const text =
        rank == 0
            ? "was removed while this run was using"
            : "which rank 0 can see; the checkpoint folder must be on a file "
              "system that all hosts share";
    CHECK(lsi_step_check(gone.text, rank) == LS_ERR_IO);
    CHECK(strstr(ls_last_error(), text) != NULL);
}

static void a_removed_folder_is_not_another_host(void **state)
{
    (void)state;
    plan p = new_plan();
    run_threads(2, remove_and_check, &p);
    discard(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_files_are_damage),
        cmocka_unit_test(what_cannot_be_told_stays),
        cmocka_unit_test(what_cannot_be_read_is_set_aside),
        cmocka_unit_test(what_could_not_be_read_is_kept_whole),
        cmocka_unit_test(what_is_no_folder_is_set_aside),
        cmocka_unit_test(what_cannot_be_examined_is_not_nothing),
        cmocka_unit_test(a_removed_folder_is_not_another_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

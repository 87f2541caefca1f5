/*
 * Checkpoints: bit for bit on any number of ranks, and what is refused.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memory.h"
#include "checkpoint_model.h"
#include "model/checkpoint/folder.h"
#include "testing.h"

static void read_values(ls_group *group, void *opaque)
{
    const plan *const p = opaque;
    ls_checkpoint *c = NULL;
    CHECK_OK(ls_checkpoint_open(&c, group, p->folder));
    CHECK(strcmp(ls_checkpoint_value(c, "who"), "me & you") == 0);
    CHECK(strcmp(ls_checkpoint_value(c, "epoch"), "7") == 0);
    CHECK(ls_checkpoint_value(c, "nothing") == NULL);
    /* Buffers are a rank's own where there are as many ranks. */
    model m = make_model(p, group, 3);
    CHECK_OK(ls_checkpoint_load(c, m.params, NULL));
    const float *mean = tensor_data(ls_params_buffer(m.params, 0));
    CHECK(mean[1] == (float)(10 * (ls_group_rank(group) % 2) + 1));
    free_model(&m);
    ls_checkpoint_close(&c);
    CHECK(c == NULL);
}

/* ---- tests --------------------------------------------------------------- */

static void any_ranks_load_what_any_saved(void **state)
{
    (void)state;
    for (int from = 1; from <= MAX_RANKS; from++) {
        for (int sharded = 0; sharded < 2; sharded++) {
            plan p = new_plan();
            p.sharded = sharded != 0;
            expect_ok(&p, from, save);
            for (int to = 1; to <= MAX_RANKS; to++) {
                p.sharded = false;
                expect_ok(&p, to, load);
                p.sharded = true;
                expect_ok(&p, to, load);
                assert_int_equal(p.opened, 5);
            }
            discard(&p);
        }
    }
}

static void values_and_buffers_come_back(void **state)
{
    (void)state;
    plan p = new_plan();
    expect_ok(&p, 2, save);
    run_threads(2, read_values, &p);
    run_threads(3, read_values, &p);
    discard(&p);
}

static void sgd_is_kept_too(void **state)
{
    (void)state;
    plan p = new_plan();
    p.sgd = true;
    expect_ok(&p, 2, save);
    expect_ok(&p, 3, load);
    p.sgd = false;
    expect_error(&p, 2, load, "saved with sgd, but this optimizer is adamw");
    discard(&p);
}

static void the_newest_are_kept(void **state)
{
    (void)state;
    plan p = new_plan();
    p.keep = 2;
    int64_t *steps;
    size_t n;
    for (p.step = 9; p.step < 13; p.step++)
        expect_ok(&p, 2, save);
    assert_ok(lsi_steps_list(p.folder, &steps, &n));
    assert_int_equal(n, 2);
    assert_true(steps[0] == 12 && steps[1] == 11);
    lsi_free(steps);
    p.step = 12;
    expect_error(&p, 2, save, "already contains a checkpoint");
    expect_ok(&p, 2, load);
    assert_int_equal(p.opened, 12);
    discard(&p);
}

static void damage_is_passed_over(void **state)
{
    (void)state;
    static const char *const files[] = {"manifest.json", "model.safetensors",
                                        "rank-00001-of-00002.safetensors"};
    for (size_t i = 0; i < TEST_COUNT(files); i++) {
        plan p = new_plan();
        expect_ok(&p, 2, save);
        p.step = 6;
        expect_ok(&p, 2, save);
        flip_byte(file_of(&p, 6, files[i]), 60);
        expect_ok(&p, 2, load);
        assert_int_equal(p.opened, 5);
        assert_int_equal(truncate(file_of(&p, 5, files[i]).text, 100), 0);
        expect_error(&p, 2, load, "no intact checkpoint");
        /* A step that is not whole can be saved again. */
        expect_ok(&p, 2, save);
        expect_ok(&p, 2, load);
        assert_int_equal(p.opened, 6);
        discard(&p);
    }
}

static void a_torn_save_is_passed_over(void **state)
{
    (void)state;
    plan p = new_plan();
    expect_error(&p, 2, load, "no checkpoint found in");
    expect_ok(&p, 2, save);
    p.step = 8;
    expect_ok(&p, 3, save);
    assert_int_equal(unlink(file_of(&p, 8, "manifest.json").text), 0);
    expect_ok(&p, 2, load);
    assert_int_equal(p.opened, 5);
    /* Files of the torn save do not stay among those of the next. */
    expect_ok(&p, 2, save);
    const lsi_path old = file_of(&p, 8, "rank-00002-of-00003.safetensors");
    assert_int_not_equal(access(old.text, F_OK), 0);
    expect_ok(&p, 1, load);
    assert_int_equal(p.opened, 8);
    discard(&p);
}

static void another_model_is_named(void **state)
{
    (void)state;
    plan p = new_plan();
    expect_ok(&p, 2, save);
    p.hidden = 334;
    expect_error(&p, 2, load,
                 "'hidden.weight' has shape (333), expected (334)");
    p.hidden = 333;
    p.more = true;
    p.step = 6;
    expect_error(&p, 2, load, "has no tensor 'more.weight'");
    expect_ok(&p, 2, save);
    p.more = false;
    expect_error(
        &p, 2, load,
        "contains a tensor 'more.weight', but the model has no tensor of");
    discard(&p);
}

static void a_full_disk_leaves_the_old_one(void **state)
{
    (void)state;
    plan p = new_plan();
    struct rlimit before;
    expect_ok(&p, 2, save);
    p.step = 6;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {2000, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    expect_error(&p, 2, save, "cannot write");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    /* Nor does what was written take space any more. */
    assert_int_not_equal(access(lsi_step_folder(p.folder, 6).text, F_OK), 0);
    expect_ok(&p, 2, load);
    assert_int_equal(p.opened, 5);
    discard(&p);
}

static void save_other_steps(ls_group *group, void *opaque)
{
    plan *const p = opaque;
    model m = make_model(p, group, 1);
    const ls_checkpoint_parts parts = {.params = m.params,
                                       .optimizer = m.optimizer};
    const ls_status status = ls_checkpoint_save(
        group, p->folder, 5 + ls_group_rank(group) / 2, &parts, 0);
    CHECK(status == LS_ERR_MISMATCH);
    CHECK(strstr(ls_last_error(), "from 5 to 6") != NULL);
    free_model(&m);
}

static void ranks_save_the_same_step(void **state)
{
    (void)state;
    plan p = new_plan();
    run_threads(3, save_other_steps, &p);
    discard(&p);
}

static void folders_that_cannot_be(void **state)
{
    (void)state;
    plan p = new_plan(), file = p;
    snprintf(file.folder, sizeof file.folder, "/dev/null/checkpoints");
    expect_error(&file, 2, save, "/dev/null/checkpoints");
    expect_error(&file, 2, load, "/dev/null/checkpoints");
    discard(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_ranks_load_what_any_saved),
        cmocka_unit_test(values_and_buffers_come_back),
        cmocka_unit_test(sgd_is_kept_too),
        cmocka_unit_test(the_newest_are_kept),
        cmocka_unit_test(damage_is_passed_over),
        cmocka_unit_test(a_torn_save_is_passed_over),
        cmocka_unit_test(another_model_is_named),
        cmocka_unit_test(a_full_disk_leaves_the_old_one),
        cmocka_unit_test(ranks_save_the_same_step),
        cmocka_unit_test(folders_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

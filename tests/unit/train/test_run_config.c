/*
 * Settings of a run against those of a checkpoint, also of one that older
 * versions have made.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/autograd.h"
#include "testing.h"
#include "train/resume.h"
#include "train/run_config.h"

static int remove_one(const char *path, const struct stat *info, int kind,
                      struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static ls_params *make_params(void)
{
    const int64_t n = 3;
    ls_params *params = NULL;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_params_add(params, "w", 1, &n, (ls_init){LS_INIT_NORMAL, 0, 1},
                            NULL));
    assert_ok(ls_params_allocate(params, NULL, 1));
    return params;
}

/* The "--lr" of the checkpoint stands for its last step. */
static void check_longer_schedule(const ls_checkpoint *checkpoint)
{
    lsi_run_config config = {.n = 0};
    lsi_run_config_int(&config, "--lr", 2);
    lsi_run_config_end(&config);
    lsi_run_config_schedule(&config, 0);
    assert_error(lsi_run_config_check(&config, false, checkpoint),
                 LS_ERR_ARGUMENT,
                 "ends with step 0.1, but this run has 2 steps. Add "
                 "--new-schedule");
    assert_ok(lsi_run_config_check(&config, true, checkpoint));
}

static void what_a_run_depends_on(void **state)
{
    (void)state;
    char folder[] = "/tmp/lockstep-facts-XXXXXX";
    static const char *const values[] = {"--lr", "0.1", "--size", "tiny", NULL};
    ls_group *group = NULL;
    ls_checkpoint *checkpoint = NULL;
    ls_params *params = make_params();
    const ls_checkpoint_parts parts = {.params = params, .values = values};
    assert_non_null(mkdtemp(folder));
    assert_ok(ls_group_open_threads(&group, 1));
    assert_ok(ls_checkpoint_save(group, folder, 7, &parts, 0));
    assert_ok(ls_checkpoint_open(&checkpoint, group, folder));

    lsi_run_config config = {.n = 0};
    lsi_run_config_real(&config, "--lr", 0.1);
    lsi_run_config_text(&config, "--size", "tiny");
    assert_ok(lsi_run_config_check(&config, false, checkpoint));
    lsi_run_config_real(&config, "--norm-eps", 1e-5);
    assert_error(
        lsi_run_config_check(&config, false, checkpoint), LS_ERR_ARGUMENT,
        "step 7: it was made with --norm-eps unknown, but this run has "
        "1e-05");
    lsi_run_config_before(&config, "1e-05");
    assert_ok(lsi_run_config_check(&config, false, checkpoint));
    lsi_run_config_before(&config, "0.01");
    assert_error(lsi_run_config_check(&config, false, checkpoint),
                 LS_ERR_ARGUMENT,
                 "made with --norm-eps 0.01, but this run has 1e-05");
    config = (lsi_run_config){.n = 0};
    lsi_run_config_text(&config, "--size", "tiny");
    lsi_run_config_real(&config, "--lr", 0.2);
    lsi_run_config_schedule(&config, 1);
    assert_error(lsi_run_config_check(&config, false, checkpoint),
                 LS_ERR_ARGUMENT,
                 "made with --lr 0.1, but this run has 0.2; to continue with "
                 "this run's value, use --new-schedule");
    assert_ok(lsi_run_config_check(&config, true, checkpoint));
    lsi_run_config_usual(&config, "--lr");
    assert_ok(lsi_run_config_check(&config, false, checkpoint));
    assert_string_equal(lsi_run_config_value(&config, "--lr"), "0.1");
    check_longer_schedule(checkpoint);
    config = (lsi_run_config){.n = 0};
    lsi_run_config_text(&config, "--size", "small");
    lsi_run_config_before(&config, "small"); /* what is said counts */
    assert_error(lsi_run_config_check(&config, false, checkpoint),
                 LS_ERR_ARGUMENT,
                 "made with --size tiny, but this run has small");

    ls_checkpoint_close(&checkpoint);
    ls_group_close(&group);
    ls_params_free(&params);
    assert_int_equal(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* A number of the scale of losses that no run has had. */
static void scales_are_numbers(void **state)
{
    (void)state;
    static const char *const scales[] = {"nan", "-1",    "inf", "",
                                         "1x",  "65536", "0"};
    enum { BAD = 5 };
    ls_group *group = NULL;
    ls_params *params = make_params();
    assert_ok(ls_group_open_threads(&group, 1));
    for (size_t i = 0; i < TEST_COUNT(scales); i++) {
        char folder[] = "/tmp/lockstep-facts-XXXXXX";
        const char *const values[] = {
            "loss_scale", scales[i], "good_steps", "3", "skipped", "0", NULL};
        const ls_checkpoint_parts parts = {.params = params, .values = values};
        ls_checkpoint *checkpoint = NULL;
        lsi_stepper stepper = {0};
        assert_non_null(mkdtemp(folder));
        assert_ok(ls_checkpoint_save(group, folder, 7, &parts, 0));
        assert_ok(ls_checkpoint_open(&checkpoint, group, folder));
        const ls_status status = lsi_resume_load(checkpoint, params, &stepper);
        if (i < BAD)
            assert_error(status, LS_ERR_FORMAT, "is damaged: loss_scale is");
        else
            assert_ok(status);
        ls_checkpoint_close(&checkpoint);
        assert_int_equal(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
    ls_group_close(&group);
    ls_params_free(&params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_run_depends_on),
        cmocka_unit_test(scales_are_numbers),
    };
    return cmocka_run_group_tests_name("facts", tests, NULL, NULL);
}

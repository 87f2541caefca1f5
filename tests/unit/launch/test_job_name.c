/*
 * Words that name a job and words that do not, for made-up jobs.
 */
#include <string.h>

#include "launch/job_name.h"
#include "testing.h"

static const lsi_job_found jobs[] = {
    {.id = "j0", .run = "4f1c90ab", .launcher = 100},
    {.id = "j1", .run = "4f1cee", .launcher = 200},
    {.id = "j2", .run = "night", .launcher = 300},
    {.id = "j3", .run = "nightly", .launcher = 400},
    {.id = "j4", .run = "400", .launcher = 500}, /* j3's launcher */
    {.id = "j5", .run = "12345678", .launcher = 600},
    {.id = "j6", .run = "twin", .launcher = 700},
    {.id = "j7", .run = "twin", .launcher = 800},
    {.id = "j8", .run = "ab", .launcher = 900},
    {.id = "j9", .run = "31", .launcher = 1000}, /* PID of a rank of j2 */
};

enum { JOBS = sizeof(jobs) / sizeof(jobs[0]) };

/* Ranks by their PID. */
static const struct {
    const char *pid, *id;
} ranks[] = {{"31", "j2"}, {"32", "j3"}, {"33", "gone"}};

static const char *of_rank(const char *name)
{
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
        if (strcmp(ranks[i].pid, name) == 0)
            return ranks[i].id;
    return NULL;
}

static void names_that_are_pids(void **state)
{
    static const struct {
        const char *name;
        pid_t pid; /* 0: not a PID */
    } all[] = {
        {"1", 1},          {"31", 31},   {"2147483647", 2147483647},
        {"2147483648", 0}, {"0", 0},     {"031", 0},
        {"", 0},           {"31x", 0},   {"-31", 0},
        {" 31", 0},        {"night", 0}, {"99999999999999999999", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        pid_t pid = 0;
        assert_int_equal(lsi_parse_pid(all[i].name, &pid), all[i].pid != 0);
        assert_int_equal(pid, all[i].pid);
    }
}

static void names_of_one_job(void **state)
{
    static const struct {
        const char *name, *id;
    } all[] = {
        {"4f1c90ab", "j0"}, {"4f1c9", "j0"},   {"4f1ce", "j1"},
        {"night", "j2"}, /* and the beginning of another */
        {"nightl", "j3"},   {"nightly", "j3"}, {"300", "j2"},
        {"500", "j4"},      {"600", "j5"},     {"12345678", "j5"},
        {"700", "j6"},      {"800", "j7"},     {"ab", "j8"},
        {"32", "j3"},       {"100", "j0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        lsi_job_found found;
        assert_ok(lsi_choose_job(jobs, JOBS, all[i].name, of_rank(all[i].name),
                                 &found));
        assert_string_equal(found.id, all[i].id);
    }
}

static void names_of_no_job(void **state)
{
    static const struct {
        const char *name;
        ls_status status;
        const char *why;
    } all[] = {
        {"", LS_ERR_ARGUMENT, "'' is too short"},
        {"4", LS_ERR_NOT_FOUND, "the PID '4'. Give a complete id"},
        {"n", LS_ERR_ARGUMENT, "'n' is too short"},
        {"4f", LS_ERR_ARGUMENT, "'4f' is too short"},
        {"nig", LS_ERR_ARGUMENT, "'nig' is too short"},
        {"nightlyx", LS_ERR_NOT_FOUND, "equals 'nightlyx' or begins with it"},
        {"1234", LS_ERR_NOT_FOUND, "the PID '1234'. Give a complete id"},
        {"1234567", LS_ERR_NOT_FOUND, "the PID '1234567'. Give a complete id"},
        {"0300", LS_ERR_NOT_FOUND, "the PID '0300'"},
        {"33", LS_ERR_NOT_FOUND, "the PID '33'"}, /* it has just ended */
        {"7777", LS_ERR_NOT_FOUND, "the PID '7777'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        lsi_job_found found = {.launcher = -7};
        const char *const rank = of_rank(all[i].name);
        assert_error(lsi_choose_job(jobs, JOBS, all[i].name, rank, &found),
                     all[i].status, all[i].why);
        assert_non_null(strstr(ls_last_error(),
                               "Running: 4f1c90ab (launcher 100), 4f1cee"));
        assert_non_null(strstr(ls_last_error(), "and 4 more"));
        assert_int_equal(found.launcher, -7);
    }
}

static void names_of_several_jobs(void **state)
{
    static const struct {
        const char *name, *why;
    } all[] = {
        {"4f1c", "2 jobs have ids that begin with '4f1c': 4f1c90ab (launcher "
                 "100), 4f1cee (launcher 200). Give more characters"},
        {"nigh", "night (launcher 300), nightly (launcher 400). Give more"},
        {"twin", "2 jobs have the id 'twin': twin (launcher 700), twin "
                 "(launcher 800). Give the PID of the launcher"},
        {"400",
         "'400' is the id of one job and a PID of another job: nightly "
         "(launcher 400), 400 (launcher 500). For the first job, give the PID"},
        {"31",
         "night (launcher 300), 31 (launcher 1000). For the first job, give"},
    };
    lsi_job_found found;
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        assert_error(lsi_choose_job(jobs, JOBS, all[i].name,
                                    of_rank(all[i].name), &found),
                     LS_ERR_ARGUMENT, all[i].why);
}

/* A number may be both an id and a PID of the same job. */
static void one_job_twice(void **state)
{
    const lsi_job_found job = {.id = "j", .run = "77", .launcher = 77};
    lsi_job_found found;
    (void)state;
    assert_ok(lsi_choose_job(&job, 1, "77", NULL, &found));
    assert_ok(lsi_choose_job(&job, 1, "77", "j", &found));
}

static void without_jobs(void **state)
{
    lsi_job_found found;
    (void)state;
    assert_error(lsi_choose_job(NULL, 0, "night", NULL, &found),
                 LS_ERR_NOT_FOUND, "'night' or begins with it. Running: none");
    assert_error(lsi_choose_job(NULL, 0, "7", NULL, &found), LS_ERR_NOT_FOUND,
                 "Running: none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_are_pids),
        cmocka_unit_test(names_of_one_job),
        cmocka_unit_test(names_of_no_job),
        cmocka_unit_test(names_of_several_jobs),
        cmocka_unit_test(one_job_twice),
        cmocka_unit_test(without_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

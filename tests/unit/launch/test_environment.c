/*
 * The variables of a rank.
 */
#include <stdlib.h>

#include "launch/environment.h"
#include "testing.h"

/* The value of a variable that occurs once, or NULL if it does not occur. */
static const char *value_of(char **environment, const char *name)
{
    const char *found = NULL;
    const size_t length = strlen(name);
    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, name, length) == 0 &&
            (*environment)[length] == '=') {
            assert_null(found);
            found = *environment + length + 1;
        }
    }
    return found;
}

static void tells_who_it_is(void **state)
{
    (void)state;
    lsi_job_identity job;
    char **environment;
    /* As if this ran inside another job, of another launcher. */
    setenv("RANK", "77", 1);
    setenv("WORLD_SIZE", "99", 1);
    setenv("SLURM_PROCID", "5", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "6", 1);
    setenv("RANKING", "kept", 1);
    setenv("EMPTY", "", 1);
    assert_ok(lsi_job_identity_new(&job, 4, 3, 0));
    assert_ok(lsi_environment_new(&job, 2, &environment));
    assert_string_equal(value_of(environment, "RANK"), "2");
    assert_string_equal(value_of(environment, "LOCAL_RANK"), "2");
    assert_string_equal(value_of(environment, "WORLD_SIZE"), "4");
    assert_string_equal(value_of(environment, "LOCAL_WORLD_SIZE"), "4");
    assert_string_equal(value_of(environment, "GROUP_RANK"), "0");
    assert_string_equal(value_of(environment, "MASTER_ADDR"), "127.0.0.1");
    assert_string_equal(value_of(environment, "OMP_NUM_THREADS"), "3");
    assert_string_equal(value_of(environment, "LOCKSTEP_JOB"), job.id);
    assert_int_equal(atoi(value_of(environment, "MASTER_PORT")), job.port);
    assert_null(value_of(environment, "SLURM_PROCID"));
    assert_null(value_of(environment, "OMPI_COMM_WORLD_SIZE"));
    assert_string_equal(value_of(environment, "RANKING"), "kept");
    assert_string_equal(value_of(environment, "EMPTY"), "");
    assert_string_equal(value_of(environment, "PATH"), getenv("PATH"));
    lsi_environment_free(environment);
    lsi_environment_free(NULL);
}

static void jobs_differ(void **state)
{
    (void)state;
    lsi_job_identity a;
    lsi_job_identity b;
    assert_ok(lsi_job_identity_new(&a, 1, 1, 0));
    assert_ok(lsi_job_identity_new(&b, 1, 1, 1234));
    assert_int_equal(strlen(a.id), 32);
    assert_int_equal(strspn(a.id, "0123456789abcdef"), 32);
    assert_string_not_equal(a.id, b.id);
    assert_in_range(a.port, 1024, 65535);
    assert_int_equal(b.port, 1234);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_who_it_is),
        cmocka_unit_test(jobs_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The records of operations: their content, their correctness, and when they
 * are written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <glob.h>
#include <jansson.h>
#include <signal.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "ranks.h"

static char folder[] = "/tmp/lockstep-record-XXXXXX";

/* ---- reading ------------------------------------------------------------- */

/* Paths in the folder; how many. The caller frees. */
static size_t find_files(const char *pattern, glob_t *found)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, pattern);
    return glob(path, 0, NULL, found) == 0 ? found->gl_pathc : 0;
}

static size_t count_files(const char *pattern)
{
    glob_t found = {0};
    const size_t n = find_files(pattern, &found);
    globfree(&found);
    return n;
}

/* A rank's only file, or NULL. */
static json_t *load(int rank)
{
    char pattern[64];
    glob_t found = {0};
    snprintf(pattern, sizeof(pattern), "job-*-group-0-rank-%d.json", rank);
    json_t *json = NULL;
    if (find_files(pattern, &found) == 1)
        json = json_load_file(found.gl_pathv[0], 0, NULL);
    globfree(&found);
    return json;
}

static void clear(void)
{
    glob_t found = {0};
    const size_t n = find_files("*", &found);
    for (size_t i = 0; i < n; i++)
        CHECK(unlink(found.gl_pathv[i]) == 0);
    globfree(&found);
}

static json_int_t number(const json_t *object, const char *name)
{
    CHECK(json_is_integer(json_object_get(object, name)));
    return json_integer_value(json_object_get(object, name));
}

static bool says(const json_t *object, const char *name, const char *text)
{
    const char *value = json_string_value(json_object_get(object, name));
    return value != NULL && strcmp(value, text) == 0;
}

static const json_t *last_of(const json_t *json, const char *list)
{
    const json_t *array = json_object_get(json, list);
    return json_array_get(array, json_array_size(array) - 1);
}

/* ---- after a failure ----------------------------------------------------- */

enum { CALLS = 1500, SETTLING = 4 };

/* More calls than a ring holds, a flood of messages, then a disagreement. */
static void disagree(ls_group *group, void *argument)
{
    const int rank = ls_group_rank(group);
    float x[2] = {0};
    (void)argument;
    for (int i = 0; i < CALLS; i++)
        CHECK_OK(ls_all_reduce(group, x, x, 1, LS_F32, LS_REDUCE_SUM));
    for (int i = 0; i < CALLS; i++)
        CHECK_OK(rank == 0 ? ls_send(group, x, 2, LS_F32, 1, 0)
                           : ls_recv(group, x, 2, LS_F32, 0, 0));
    CHECK(ls_broadcast(group, x, 1, LS_F32, rank) == LS_ERR_MISMATCH);
}

static void check_failure(const json_t *json)
{
    const json_t *failure = json_object_get(json, "failure");
    const json_t *sides = json_object_get(failure, "sides");
    assert_true(says(failure, "kind", "LS_ERR_MISMATCH"));
    assert_true(says(failure, "field", "root"));
    assert_int_equal(number(failure, "sequence"), CALLS + SETTLING + 1);
    for (size_t i = 0; i < 2; i++) {
        const json_t *side = json_array_get(sides, i);
        assert_int_equal(number(side, "root"), number(side, "rank"));
    }
}

static void check_last_collective(const json_t *record, int rank)
{
    assert_true(says(record, "operation", "broadcast"));
    assert_true(says(record, "status", "failed"));
    assert_true(says(record, "error", "LS_ERR_MISMATCH"));
    assert_true(says(record, "dtype", "f32"));
    assert_int_equal(number(record, "sequence"), CALLS + SETTLING + 1);
    assert_int_equal(number(record, "count"), 1);
    assert_int_equal(number(record, "root"), rank);
    assert_int_equal(number(record, "bytes"), 4);
}

/* Numbers without a gap, times that do not go back. */
static void check_ring(const json_t *list, json_int_t last)
{
    json_int_t time = 0;
    assert_int_equal(json_array_size(list), 1024);
    for (size_t i = 0; i < 1024; i++) {
        const json_t *record = json_array_get(list, i);
        const json_t *began = json_object_get(record, "began_ns");
        const json_t *ended = json_object_get(record, "ended_ns");
        assert_int_equal(number(record, "sequence"),
                         last - 1023 + (json_int_t)i);
        if (began != NULL) {
            assert_true(json_integer_value(began) >= time);
            time = json_integer_value(began);
        }
        if (ended != NULL)
            assert_true(json_integer_value(ended) >= time);
    }
    assert_true(time > 0 && time <= (json_int_t)lsi_clock_ns());
}

static void a_failure_is_written(void **state)
{
    (void)state;
    run_processes(2, disagree, NULL);
    for (int rank = 0; rank < 2; rank++) {
        json_t *json = load(rank);
        assert_non_null(json);
        assert_int_equal(number(json, "rank"), rank);
        assert_int_equal(number(json, "completed"), CALLS + SETTLING);
        check_failure(json);
        check_last_collective(last_of(json, "collectives"), rank);
        check_ring(json_object_get(json, "collectives"), CALLS + SETTLING + 1);
        check_ring(json_object_get(json, "messages"), CALLS);
        assert_true(says(last_of(json, "messages"), "status", "done"));
        json_decref(json);
    }
    /* Another job does not overwrite them. */
    run_processes(2, disagree, NULL);
    assert_int_equal(count_files("*"), 4);
    clear();
}

static void leave_early(ls_group *group, void *argument)
{
    (void)argument;
    if (ls_group_rank(group) == 1)
        return; /* closes the group */
    CHECK(ls_barrier(group) == LS_ERR_PEER_DEAD);
    CHECK(strstr(ls_last_error(), "has closed the group") != NULL);
}

static void what_cannot_be_written_hides_nothing(void **state)
{
    (void)state;
    setenv("LOCKSTEP_RECORD", "/dev/null", 1);
    run_processes(2, leave_early, NULL);
    setenv("LOCKSTEP_RECORD", folder, 1);
    assert_int_equal(count_files("*"), 0);
}

/* ---- on a signal --------------------------------------------------------- */

static bool is_there(int rank)
{
    json_t *json = load(rank);
    json_decref(json);
    return json != NULL;
}

/* Rank 1 computes and calls nothing; rank 0 waits for it. */
static void be_asked(ls_group *group, void *argument)
{
    float x[3] = {0};
    (void)argument;
    for (int i = 0; i < 3; i++)
        CHECK_OK(ls_all_gather(group, x + ls_group_rank(group), x, 1, LS_F32));
    raise(SIGUSR1);
    if (ls_group_rank(group) == 1)
        while (!is_there(0) || !is_there(1))
            usleep(1000);
    CHECK_OK(ls_barrier(group));
}

static void a_signal_is_served_by_busy_ranks(void **state)
{
    (void)state;
    run_processes(2, be_asked, NULL);
    for (int rank = 0; rank < 2; rank++) {
        json_t *json = load(rank);
        const json_t *third =
            json_array_get(json_object_get(json, "collectives"), SETTLING + 2);
        assert_true(says(json, "reason", "SIGUSR1"));
        assert_true(json_is_null(json_object_get(json, "failure")));
        assert_true(says(third, "status", "done"));
        assert_true(says(third, "algorithm", "flat"));
        assert_true(json_is_true(json_object_get(third, "in_place")));
        json_decref(json);
    }
    assert_int_equal(count_files("*.part"), 0);
    clear();
}

/* Whether a signal would be ignored: what a program that it starts inherits. */
static bool is_ignored(int number)
{
    struct sigaction action;
    CHECK(sigaction(number, NULL, &action) == 0);
    return action.sa_handler == SIG_IGN;
}

static void be_asked_and_fork(ls_group *group, void *argument)
{
    be_asked(group, argument);
    const pid_t child = fork();
    if (child == 0)
        _exit(is_ignored(SIGUSR1) ? 0 : 1);
    CHECK(wait_process(child) == 0);
}

/* The launcher has started the process so, or somebody else. */
static void who_ignored_the_signal_is_asked(void **state)
{
    (void)state;
    void (*before)(int) = signal(SIGUSR1, SIG_IGN);
    run_processes(2, be_asked_and_fork, NULL);
    signal(SIGUSR1, before);
    assert_int_equal(count_files("job-*.json"), 2);
    clear();
}

static _Atomic int own_signals;

static void own_handler(int signal_number)
{
    (void)signal_number;
    own_signals++;
}

static void ask_with_own_handler(ls_group *group, void *argument)
{
    (void)argument;
    raise(SIGUSR1);
    CHECK(own_signals == 1);
    CHECK_OK(ls_barrier(group));
}

static void a_handler_of_the_program_is_kept(void **state)
{
    (void)state;
    void (*before)(int) = signal(SIGUSR1, own_handler);
    run_processes(2, ask_with_own_handler, NULL);
    signal(SIGUSR1, before);
    assert_int_equal(count_files("*"), 0);
}

/* ---- on demand ----------------------------------------------------------- */

static void dump(ls_group *group, void *argument)
{
    char path[128], folder_part[128];
    (void)argument;
    snprintf(path, sizeof(path), "%s/own-%d", folder, ls_group_rank(group));
    snprintf(folder_part, sizeof(folder_part), "%s.part", folder);
    CHECK_OK(ls_group_dump(group, path));
    CHECK_OK(ls_group_dump(group, path));
    CHECK(ls_group_dump(group, NULL) == LS_ERR_ARGUMENT);
    CHECK(ls_group_dump(group, folder) == LS_ERR_IO);
    char made[128], name[136];
    snprintf(made, sizeof(made), "%s/made-%d", folder, ls_group_rank(group));
    snprintf(name, sizeof(name), "%s/own", made);
    CHECK_OK(ls_group_dump(group, name));
    CHECK(unlink(name) == 0 && rmdir(made) == 0);
    CHECK_OK(ls_barrier(group));
    CHECK(access(folder_part, F_OK) != 0); /* no half file stays */
    CHECK_OK(ls_barrier(group));
    CHECK(ls_group_dump(NULL, path) == LS_ERR_ARGUMENT);
}

static void a_program_may_ask(void **state)
{
    (void)state;
    run_threads(2, dump, NULL);
    assert_int_equal(count_files("*"), 2);
    clear();
}

static void reduce_and_ask(ls_group *group, void *argument)
{
    float x = 0;
    (void)argument;
    for (int i = 0; i < 2000; i++) {
        CHECK_OK(ls_all_reduce(group, &x, &x, 1, LS_F32, LS_REDUCE_SUM));
        if (i % 500 == 0)
            raise(SIGUSR1);
    }
}

/*
 * For the thread sanitizer: one thread reads what others write. It comes last,
 * as a question may be answered late, for the groups that there are then.
 */
static void asking_disturbs_nobody(void **state)
{
    (void)state;
    run_threads(3, reduce_and_ask, NULL);
    clear();
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL || setenv("LOCKSTEP_RECORD", folder, 1) != 0;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_is_written),
        cmocka_unit_test(what_cannot_be_written_hides_nothing),
        cmocka_unit_test(a_signal_is_served_by_busy_ranks),
        cmocka_unit_test(who_ignored_the_signal_is_asked),
        cmocka_unit_test(a_handler_of_the_program_is_kept),
        cmocka_unit_test(a_program_may_ask),
        cmocka_unit_test(asking_disturbs_nobody),
    };
    return cmocka_run_group_tests_name("recorder", tests, set_up, tear_down);
}

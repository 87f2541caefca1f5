/*
 * Records of runs that were restarted: where each attempt writes, and which one
 * is read.
 */
#include "testing.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/restart.h"
#include "lockstep/lockstep.h"
#include "observe/memory_record.h"
#include "observe/span_file.h"
#include "report/folder.h"
#include "report/timeline.h"

static char folder[64];

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lockstep-attempts-XXXXXX");
    unsetenv("LOCKSTEP_RESTART");
    unsetenv("TORCHELASTIC_RESTART_COUNT");
    unsetenv("LOCKSTEP_RUN");
    unsetenv("TORCHELASTIC_RUN_ID");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int end(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* A file of that run, written at that second; run NULL: it does not say. */
static void write_record(int attempt, const char *name, const char *run,
                         time_t second)
{
    char path[128] = "";
    if (attempt > 0)
        snprintf(path, sizeof path, "attempt-%d/", attempt);
    assert_true(lsi_make_folders(in_folder(path)));
    strcat(path, name);
    FILE *const file = fopen(in_folder(path), "w");
    assert_non_null(file);
    fprintf(file, "MAGIC h {\"a\": 1");
    if (run != NULL)
        fprintf(file, ", \"run\": \"%s\"", run);
    fprintf(file, "} and more {");
    fclose(file);
    const struct timespec times[] = {{.tv_sec = second}, {.tv_sec = second}};
    assert_int_equal(utimensat(AT_FDCWD, in_folder(path), times, 0), 0);
}

static int chosen(int64_t wanted)
{
    lsi_attempts attempts;
    char expected[128];
    assert_ok(lsi_find_attempt(folder, ".lstrace", wanted, &attempts));
    snprintf(expected, sizeof expected, "%s", folder);
    if (attempts.chosen > 0)
        snprintf(expected, sizeof expected, "%s/attempt-%d", folder,
                 attempts.chosen);
    assert_string_equal(attempts.folder, expected);
    return attempts.chosen;
}

static void the_newest_attempt_is_chosen(void **state)
{
    lsi_attempts attempts;
    (void)state;
    assert_int_equal(chosen(-1), 0); /* there is none */
    write_record(2, "rank-0.lsmem", "r", 9);
    assert_int_equal(chosen(-1), 0);
    write_record(0, "rank-0.lstrace", "r", 5);
    write_record(0, "rank-1.lstrace", "r", 5);
    assert_int_equal(chosen(-1), 0);
    write_record(1, "rank-0.lstrace", "r", 5);
    write_record(2, "rank-0.lstrace", "r", 3); /* copied in any order */
    write_record(10, "rank-0.lstrace", "r", 4);
    assert_int_equal(chosen(-1), 10);
    assert_int_equal(chosen(2), 2);
    assert_int_equal(chosen(0), 0);
    assert_error(lsi_find_attempt(folder, ".lstrace", 3, &attempts),
                 LS_ERR_NOT_FOUND, "records of these attempts: 0, 1, 2, 10");
    assert_error(lsi_find_attempt(folder, ".x", 3, &attempts), LS_ERR_NOT_FOUND,
                 "records of these attempts: none");
}

static void attempts_of_an_older_run_do_not_count(void **state)
{
    (void)state;
    write_record(0, "rank-0.lstrace", "new", 20);
    write_record(1, "rank-0.lstrace", "old", 11);
    write_record(2, "rank-0.lstrace", "old", 12);
    assert_int_equal(chosen(-1), 0);
    write_record(1, "rank-0.lstrace", "new", 19);
    assert_int_equal(chosen(-1), 1);
    /* The first attempt has left nothing, but one of an older run has. */
    write_record(0, "rank-0.lstrace", "older", 3);
    assert_int_equal(chosen(-1), 1);
    /* A run that no launcher has named, after those. */
    write_record(0, "rank-0.lstrace", "", 30);
    assert_int_equal(chosen(-1), 0);
    write_record(1, "rank-0.lstrace", "", 29);
    assert_int_equal(chosen(-1), 0);
    /* A file that does not say is believed by the number. */
    write_record(2, "rank-0.lstrace", NULL, 1);
    assert_int_equal(chosen(-1), 2);
}

static void the_launcher_says_which_attempt_it_is(void **state)
{
    static const char *const none[] = {"0",  "",  "-1",
                                       "1x", "x", "99999999999999999999"};
    char path[64];
    (void)state;
    assert_int_equal(lsi_restarts(), 0);
    for (size_t i = 0; i < TEST_COUNT(none); i++) {
        setenv("LOCKSTEP_RESTART", none[i], 1);
        assert_int_equal(lsi_restarts(), 0);
        assert_true(lsi_restart_folder("a/b", path, sizeof path));
        assert_string_equal(path, "a/b");
    }
    unsetenv("LOCKSTEP_RESTART");
    setenv("TORCHELASTIC_RESTART_COUNT", "4", 1);
    assert_int_equal(lsi_restarts(), 4);
    setenv("LOCKSTEP_RESTART", "3", 1);
    assert_true(lsi_restart_folder("a/b", path, sizeof path));
    assert_string_equal(path, "a/b/attempt-3");
    assert_false(lsi_restart_folder("a/b", path, 13));
    assert_string_equal(lsi_restart_run(), "");
    setenv("TORCHELASTIC_RUN_ID", "t", 1);
    assert_string_equal(lsi_restart_run(), "t");
    setenv("TORCHELASTIC_RUN_ID", "none", 1);
    assert_string_equal(lsi_restart_run(), "");
    setenv("LOCKSTEP_RUN", "r-1", 1);
    assert_string_equal(lsi_restart_run(), "r-1");
    setenv("LOCKSTEP_RUN", "a\xff", 1); /* no UTF-8, which JSON is */
    assert_string_equal(lsi_restart_run(), "");
}

/* The recording of a process of that attempt. */
static void record(const char *attempt, const char *name)
{
    setenv("LOCKSTEP_RUN", "one", 1);
    setenv("LOCKSTEP_RESTART", attempt, 1);
    assert_ok(lsi_span_start(folder));
    assert_ok(lsi_memory_record_in(folder));
    ls_range_push(name);
    ls_range_pop();
    lsi_span_stop();
    assert_ok(ls_memory_record_stop());
}

static void attempts_do_not_overwrite_each_other(void **state)
{
    lsi_attempts attempts;
    (void)state;
    record("0", "the one that failed");
    record("1", "the next one");
    for (int i = -1; i < 2; i++) {
        lsi_timeline *t = NULL;
        assert_ok(lsi_find_attempt(folder, ".lsmem", i, &attempts));
        assert_int_equal(attempts.chosen, i == -1 ? 1 : i);
        assert_ok(lsi_find_attempt(folder, ".lstrace", i, &attempts));
        assert_ok(lsi_timeline_read(attempts.folder, &t));
        assert_int_equal(t->n, 1);
        assert_ok(lsi_timeline_load(t->process[0]));
        assert_string_equal(
            lsi_timeline_name(t->process[0], &t->process[0]->spans[0]),
            i == 0 ? "the one that failed" : "the next one");
        lsi_timeline_free(&t);
    }
}

/* Another user with access to the folder may have put a link there. */
static void a_recording_follows_no_link(void **state)
{
    char name[64], path[256], target[256], got[8] = "";
    (void)state;
    snprintf(target, sizeof target, "%s", in_folder("precious"));
    FILE *file = fopen(target, "w");
    assert_non_null(file);
    fputs("data", file);
    fclose(file);
    snprintf(name, sizeof name, "process-%d.lsmem", (int)getpid());
    snprintf(path, sizeof path, "%s", in_folder(name));
    assert_int_equal(symlink(target, path), 0);
    assert_ok(lsi_memory_record_in(folder));
    assert_ok(ls_memory_record_stop());
    file = fopen(target, "r");
    assert_non_null(file);
    assert_int_equal(fread(got, 1, sizeof got - 1, file), 4);
    fclose(file);
    assert_string_equal(got, "data");
}

int main(void)
{
    unsetenv("LOCKSTEP_TRACE");
    unsetenv("LOCKSTEP_MEMORY");
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(the_newest_attempt_is_chosen),
        TEST(attempts_of_an_older_run_do_not_count),
        TEST(the_launcher_says_which_attempt_it_is),
        TEST(attempts_do_not_overwrite_each_other),
        TEST(a_recording_follows_no_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

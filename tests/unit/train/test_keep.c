/*
 * The folder that a run takes: the next number, or after a restart the one that
 * the attempt before has left.
 */
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "testing.h"
#include "train/keep.h"

static char root[] = "/tmp/lockstep-keep-XXXXXX";

static int remove_one(const char *path, const struct stat *info, int kind,
                      struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static int begin(void **state)
{
    (void)state;
    return mkdtemp(root) != NULL && chdir(root) == 0 ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    return chdir("/") == 0 ? nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS)
                           : -1;
}

/* They stay where they are, and have their folders, until the test ends. */
static lsi_keep keeps[16];
static size_t n_keeps;

static int stop(void **state)
{
    (void)state;
    while (n_keeps > 0)
        lsi_keep_close(&keeps[--n_keeps]);
    return 0;
}

/* Each test begins with an empty folder, in no launcher's run. */
static int start(void **state)
{
    (void)state;
    (void)nftw("runs", remove_one, 8, FTW_DEPTH | FTW_PHYS);
    (void)nftw("mine", remove_one, 8, FTW_DEPTH | FTW_PHYS);
    unsetenv("LOCKSTEP_RESTART");
    unsetenv("LOCKSTEP_RUN");
    return 0;
}

static void write_file(const char *folder, const char *name, const char *text)
{
    FILE *const file = fopen(lsi_path_in(folder, name).text, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A folder that a run of that name has left. */
static void leave(const char *folder, const char *run, bool whole)
{
    lsi_keep keep = {.job = "lm", .folder_wanted = true};
    assert_true(mkdir(folder, 0777) == 0);
    keep.place = lsi_path_in(NULL, folder);
    setenv("LOCKSTEP_RUN", run, 1);
    assert_ok(lsi_keep_write_config(&keep, "train lm", json_object(), NULL));
    if (whole)
        write_file(folder, LSI_MODEL_FILE, "x");
}

static lsi_keep *new_keep(const char *job, const char *folder)
{
    assert_true(n_keeps < sizeof(keeps) / sizeof(keeps[0]));
    lsi_keep *const keep = &keeps[n_keeps++];
    *keep = (lsi_keep){.job = job, .folder_wanted = true, .folder = folder};
    return keep;
}

static lsi_keep *taken(const char *job)
{
    lsi_keep *const keep = new_keep(job, NULL);
    assert_ok(lsi_keep_open(keep, 100, false));
    assert_true(access(keep->place.text, F_OK) == 0);
    return keep;
}

static const char *today(const char *job, int number)
{
    static char out[64];
    char date[16];
    const time_t now = time(NULL);
    struct tm day;
    assert_true(
        strftime(date, sizeof(date), "%Y-%m-%d", localtime_r(&now, &day)) > 0);
    snprintf(out, sizeof(out), "runs/%s-%s-%d", job, date, number);
    return out;
}

static void the_first_number_that_is_free(void **state)
{
    (void)state;
    lsi_keep *const first = taken("lm");
    assert_string_equal(first->place.text, today("lm", 1));
    assert_true(first->made_parent && first->made_place);
    assert_string_equal(taken("lm")->place.text, today("lm", 2));
    assert_string_equal(taken("images")->place.text, today("images", 1));
    lsi_keep_close(first);
    assert_true(access(today("lm", 1), F_OK) != 0);
    const lsi_keep *const again = taken("lm");
    assert_string_equal(again->place.text, today("lm", 1));
    assert_false(again->made_parent);
}

static void what_has_not_begun_is_removed(void **state)
{
    (void)state;
    lsi_keep *keep = taken("lm");
    write_file(keep->place.text, LSI_KEEP_METRICS, "");
    lsi_keep_close(keep);
    assert_true(access("runs", F_OK) != 0);
    keep = taken("lm");
    assert_ok(lsi_keep_write_config(keep, "train lm", json_object(), NULL));
    keep->over = true;
    lsi_keep_close(keep);
    assert_true(access(keep->place.text, F_OK) == 0);
    assert_true(
        access(lsi_path_in(keep->place.text, LSI_KEEP_LOCK).text, F_OK) != 0);
}

/* The newest of this run and job that has no model yet. */
static void a_restart_goes_on(void **state)
{
    (void)state;
    assert_int_equal(mkdir("runs", 0777), 0);
    leave("runs/lm-2026-01-30-9", "this", false);
    leave("runs/lm-2026-01-30-10", "this", false);
    leave("runs/lm-2026-01-30-11", "this", true);
    leave("runs/lm-2026-01-30-12", "other", false);
    leave("runs/images-2026-02-01-1", "this", false);
    leave("runs/lm-2026-02-01-1x", "this", false);
    leave("runs/lm-2026-02-01", "this", false);
    setenv("LOCKSTEP_RUN", "this", 1);
    assert_string_equal(taken("lm")->place.text, today("lm", 1));
    setenv("LOCKSTEP_RESTART", "1", 1);
    const lsi_keep *const keep = taken("lm");
    assert_string_equal(keep->place.text, "runs/lm-2026-01-30-10");
    assert_false(keep->made_place);
    setenv("LOCKSTEP_RUN", "new", 1);
    assert_string_equal(taken("lm")->place.text, today("lm", 2));
    unsetenv("LOCKSTEP_RUN");
    assert_string_equal(taken("lm")->place.text, today("lm", 3));
}

static void assert_refused(const char *file, bool resumes, bool continues)
{
    lsi_keep *const keep = new_keep("lm", "mine");
    char text[64];
    keep->resumes = resumes;
    snprintf(text, sizeof(text), "'mine' already contains '%s' of another run",
             file);
    assert_error(lsi_keep_open(keep, 100, continues), LS_ERR_STATE, text);
    assert_true(access(lsi_path_in("mine", file).text, F_OK) == 0);
}

static void assert_taken(bool resumes, bool continues)
{
    lsi_keep *const keep = new_keep("lm", "mine");
    keep->resumes = resumes;
    assert_ok(lsi_keep_open(keep, 100, continues));
    assert_string_equal(keep->model.text, "mine/" LSI_MODEL_FILE);
    keep->over = true;
    lsi_keep_close(keep);
}

static void a_folder_with_a_result_is_left_alone(void **state)
{
    (void)state;
    leave("mine", "this", false);
    assert_refused(LSI_KEEP_CONFIG, false, false);
    assert_taken(true, false);
    setenv("LOCKSTEP_RESTART", "1", 1);
    assert_taken(false, false);
    setenv("LOCKSTEP_RUN", "other", 1);
    assert_refused(LSI_KEEP_CONFIG, false, false);
    write_file("mine", LSI_MODEL_FILE, "x");
    setenv("LOCKSTEP_RUN", "this", 1);
    assert_refused(LSI_MODEL_FILE, false, false);
    assert_refused(LSI_MODEL_FILE, true, false);
    assert_taken(true, true);
}

/* A process that has the folder until it is killed. */
static pid_t start_holder(void)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        lsi_keep *const keep = new_keep("lm", "mine");
        if (lsi_keep_open(keep, 100, false) != LS_OK ||
            write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

/* Also before it has written anything; a dead one blocks nobody. */
static void another_process_is_named(void **state)
{
    char host[64] = "", name[160];
    (void)state;
    const pid_t pid = start_holder();
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    snprintf(name, sizeof name,
             "process %ld on host %s is writing to 'mine'; wait until it ends, "
             "or choose another folder",
             (long)pid, host);
    for (int resumes = 0; resumes < 2; resumes++) {
        lsi_keep *const keep = new_keep("lm", "mine");
        keep->resumes = resumes;
        assert_error(lsi_keep_open(keep, 100, false), LS_ERR_STATE, name);
    }
    assert_true(access("mine/" LSI_KEEP_LOCK, F_OK) == 0);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_taken(false, false);
    assert_true(access("mine/" LSI_KEEP_LOCK, F_OK) != 0);
}

/* A run that ends with or without a model, in the end or not. */
static void leave_run(bool over, bool model)
{
    lsi_keep *const keep = new_keep("lm", "mine");
    assert_ok(lsi_keep_open(keep, 100, false));
    assert_ok(lsi_keep_write_config(keep, "train lm", json_object(), NULL));
    write_file("mine", LSI_KEEP_METRICS, "{}\n");
    if (model)
        write_file("mine", LSI_MODEL_FILE, "x");
    keep->over = over;
    lsi_keep_close(keep);
    assert_int_equal(access("mine/" LSI_KEEP_LOCK, F_OK) == 0, !over);
}

static void a_failed_run_can_begin_again(void **state)
{
    (void)state;
    leave_run(false, false);
    assert_taken(false, true); /* from a checkpoint: its lines go on */
    assert_true(access("mine/" LSI_KEEP_METRICS, F_OK) == 0);
    assert_refused(LSI_KEEP_CONFIG, false, false);
    assert_int_equal(unlink("mine/" LSI_KEEP_CONFIG), 0);
    assert_int_equal(unlink("mine/" LSI_KEEP_METRICS), 0);
    leave_run(false, false);
    assert_taken(false, false);
    assert_true(access("mine/" LSI_KEEP_METRICS, F_OK) != 0);
    assert_int_equal(unlink("mine/" LSI_KEEP_CONFIG), 0);
    leave_run(false, true); /* the model is not lost */
    assert_refused(LSI_MODEL_FILE, false, false);
    assert_int_equal(unlink("mine/" LSI_MODEL_FILE), 0);
    leave_run(true, false); /* it has diverged, say */
    assert_refused(LSI_KEEP_CONFIG, false, false);
}

static void the_model_has_its_room(void **state)
{
    (void)state;
    struct stat info;
    lsi_keep *const keep = new_keep("lm", "mine");
    assert_ok(lsi_keep_open(keep, 1 << 20, false));
    if (!keep->room.held)
        skip(); /* the file system cannot reserve any */
    assert_int_equal(fstat(keep->room.fd, &info), 0);
    assert_true((uint64_t)info.st_blocks * 512 >= 1 << 20);
    assert_int_equal(info.st_nlink, 0); /* it has no name */
    lsi_keep_begin(keep);
    assert_false(keep->room.held);
}

static void a_model_that_cannot_be_written(void **state)
{
    (void)state;
    lsi_keep *const keep = new_keep("lm", "mine");
    assert_ok(lsi_keep_open(keep, 100, false));
    write_file("mine", "tokenizer.json", "{}");
    write_file("mine", "config.json", "{}");
    const ls_status status = lsi_fail(LS_ERR_IO, "cannot write it");
    assert_error(lsi_keep_end(keep, status), LS_ERR_IO, "cannot write it");
    assert_null(strstr(ls_last_error(), "free"));
    assert_true(access("mine/tokenizer.json", F_OK) != 0);
    assert_true(access("mine/config.json", F_OK) != 0);
    keep->needed = UINT64_C(1) << 60;
    assert_error(lsi_keep_end(keep, lsi_fail(LS_ERR_IO, "cannot write it")),
                 LS_ERR_IO, "cannot write it. The result needs 1048576 TiB, ");
    /* An earlier model keeps its files. */
    write_file("mine", "tokenizer.json", "{}");
    write_file("mine", LSI_MODEL_FILE, "x");
    assert_error(lsi_keep_end(keep, LS_ERR_MEMORY), LS_ERR_MEMORY, "");
    assert_true(access("mine/tokenizer.json", F_OK) == 0);
}

static void too_little_room(void **state)
{
    (void)state;
    lsi_keep keep = {.job = "lm", .folder_wanted = true};
    assert_error(lsi_keep_open(&keep, UINT64_C(1) << 60, false), LS_ERR_IO,
                 "are free. The result needs 1064960 TiB; give another "
                 "folder with --output-dir");
    assert_true(access("runs", F_OK) != 0);
    keep = (lsi_keep){.file = "no/such/folder/m"};
    assert_error(lsi_keep_open(&keep, UINT64_C(1) << 60, false), LS_ERR_IO,
                 "give another file with --save");
    assert_true(access("no", F_OK) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_number_that_is_free, start,
                                        stop),
        cmocka_unit_test_setup_teardown(what_has_not_begun_is_removed, start,
                                        stop),
        cmocka_unit_test_setup_teardown(a_restart_goes_on, start, stop),
        cmocka_unit_test_setup_teardown(a_folder_with_a_result_is_left_alone,
                                        start, stop),
        cmocka_unit_test_setup_teardown(another_process_is_named, start, stop),
        cmocka_unit_test_setup_teardown(a_failed_run_can_begin_again, start,
                                        stop),
        cmocka_unit_test_setup_teardown(the_model_has_its_room, start, stop),
        cmocka_unit_test_setup_teardown(a_model_that_cannot_be_written, start,
                                        stop),
        cmocka_unit_test_setup_teardown(too_little_room, start, stop),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

/*
 * Files that are either the old ones or the whole new ones.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "report/jsonl.h"
#include "report/result.h"
#include "testing.h"

static char folder[] = "/tmp/lockstep-output-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

static int entries(void)
{
    int n = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n - 2; /* . and .. */
}

static void assert_contents(const char *path, const char *expected)
{
    char text[8192] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    const size_t bytes = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[bytes] = '\0';
    assert_string_equal(text, expected);
}

/* Stands for the C library's, also when the library calls it. */
static int umask_calls;

mode_t umask(mode_t mask)
{
    umask_calls++;
    return (mode_t)syscall(SYS_umask, mask);
}

/* Another thread that creates a file meanwhile would have no mask. */
static void the_umask_is_left_alone(void **state)
{
    (void)state;
    struct stat info;
    const char *path = in_folder("masked");
    umask(027);
    umask_calls = 0;
    assert_ok(lsi_result_write(path, "one", 3));
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_ok(lsi_result_replace(path, "two", 3));
    assert_ok(lsi_result_check(path));
    assert_int_equal(umask_calls, 0);
    assert_int_equal(umask(022), 027);
    unlink(path);
}

static void check_leaves_nothing(void **state)
{
    (void)state;
    const int before = entries();
    assert_ok(lsi_result_check(in_folder("new")));
    assert_ok(lsi_result_check(NULL));
    assert_ok(lsi_result_check("-"));
    assert_int_equal(entries(), before);
}

static void check_finds_what_cannot_be_written(void **state)
{
    (void)state;
    assert_error(lsi_result_check("/nonexistent/x.json"), LS_ERR_IO,
                 "cannot write /nonexistent/x.json: No such file");
    assert_error(lsi_result_check(folder), LS_ERR_IO, "it is a folder");
    assert_error(lsi_result_check(""), LS_ERR_IO, "empty name");
    assert_error(lsi_result_check("/proc/version"), LS_ERR_IO,
                 "cannot write /proc/version");
}

static void writes_and_replaces(void **state)
{
    (void)state;
    struct stat info;
    const char *path = in_folder("report");
    umask(022);
    assert_ok(lsi_result_write(path, "one", 3));
    assert_contents(path, "one");
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0644);
    chmod(path, 0600);
    assert_ok(lsi_result_check(path));
    assert_contents(path, "one");
    assert_ok(lsi_result_write(path, "second", 6));
    assert_contents(path, "second");
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(entries(), 1);
    unlink(path);
}

/* A link stays a link, and its target gets the bytes. */
static void writes_through_links(void **state)
{
    (void)state;
    char target[256];
    struct stat info;
    snprintf(target, sizeof(target), "%s", in_folder("target"));
    assert_ok(lsi_result_write(target, "old", 3));
    const char *link = in_folder("link");
    assert_int_equal(symlink(target, link), 0);
    assert_ok(lsi_result_check(link));
    assert_ok(lsi_result_write(link, "new", 3));
    assert_contents(target, "new");
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    /* Also one to a file that is not there yet. */
    unlink(target);
    assert_ok(lsi_result_write(link, "newer", 5));
    assert_contents(target, "newer");
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    unlink(link);
    unlink(target);
}

/* What is not a regular file is written to and not replaced. */
static void writes_to_pipes(void **state)
{
    (void)state;
    const char *path = in_folder("pipe");
    char got[8] = "";
    assert_int_equal(mkfifo(path, 0600), 0);
    const int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_ok(lsi_result_check(path));
    assert_ok(lsi_result_write(path, "bytes", 5));
    assert_int_equal(read(reader, got, sizeof(got) - 1), 5);
    assert_string_equal(got, "bytes");
    close(reader);
    unlink(path);
    assert_ok(lsi_result_write("/dev/null", "x", 1));
    assert_error(lsi_result_write("/dev/full", "x", 1), LS_ERR_IO,
                 "cannot write /dev/full: No space left");
}

static void failed_writes_change_nothing(void **state)
{
    (void)state;
    assert_error(lsi_result_write("/nonexistent/x", "x", 1), LS_ERR_IO,
                 "cannot write /nonexistent/x");
    assert_int_equal(entries(), 0);
}

static void lines_of_json(void **state)
{
    (void)state;
    const char *path = in_folder("lines");
    lsi_jsonl *lines;
    assert_ok(lsi_jsonl_open(&lines, path, 0));
    assert_ok(lsi_jsonl_write(
        lines, json_pack("{s:s,s:f}", "event", "epoch", "loss", 0.1)));
    assert_contents(path, "{\"event\":\"epoch\",\"loss\":0.1}\n");
    lsi_jsonl_close(&lines);
    assert_null(lines);
    assert_ok(lsi_jsonl_open(&lines, path, 1));
    assert_ok(lsi_jsonl_write(lines, json_object()));
    assert_error(lsi_jsonl_write(lines, NULL), LS_ERR_MEMORY, "line of JSON");
    lsi_jsonl_close(&lines);
    assert_contents(path, "{\"event\":\"epoch\",\"loss\":0.1}\n{}\n");
    assert_ok(lsi_jsonl_open(&lines, path, 0));
    lsi_jsonl_close(&lines);
    assert_contents(path, "");
    unlink(path);
}

/* A line is longer than what is read at once. */
static void lines_that_stay(void **state)
{
    (void)state;
    char text[5000];
    const char *path = in_folder("lines");
    lsi_jsonl *lines;
    memset(text, 'a', sizeof(text));
    memcpy(text + sizeof(text) - 7, "\nb\nc\nd", 7);
    static const size_t ends[] = {0, 4994, 4996, 4998, 4998, 4998};
    for (int keep = 0; keep < 6; keep++) {
        char kept[5000] = "";
        assert_ok(lsi_result_write(path, text, sizeof(text)));
        assert_ok(lsi_jsonl_open(&lines, path, keep));
        lsi_jsonl_close(&lines);
        memcpy(kept, text, ends[keep]);
        assert_contents(path, kept);
    }
    unlink(path);
}

static void lines_without_a_file(void **state)
{
    (void)state;
    lsi_jsonl *lines;
    assert_ok(lsi_jsonl_open(&lines, NULL, 0));
    assert_ok(lsi_jsonl_write(lines, json_object()));
    lsi_jsonl_close(&lines);
    lsi_jsonl_close(&lines);
    lsi_jsonl_close(NULL);
    assert_error(lsi_jsonl_open(&lines, "/nonexistent/m.jsonl", 0), LS_ERR_IO,
                 "cannot write /nonexistent/m.jsonl");
    assert_ok(lsi_jsonl_open(&lines, "/dev/full", 0));
    assert_error(lsi_jsonl_write(lines, json_object()), LS_ERR_IO,
                 "cannot write /dev/full");
    lsi_jsonl_close(&lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_umask_is_left_alone),
        cmocka_unit_test(check_leaves_nothing),
        cmocka_unit_test(check_finds_what_cannot_be_written),
        cmocka_unit_test(writes_and_replaces),
        cmocka_unit_test(writes_through_links),
        cmocka_unit_test(writes_to_pipes),
        cmocka_unit_test(failed_writes_change_nothing),
        cmocka_unit_test(lines_of_json),
        cmocka_unit_test(lines_that_stay),
        cmocka_unit_test(lines_without_a_file),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

/*
 * Files that are either the old ones or the whole new ones.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report/jsonl.h"
#include "report/result.h"
#include "report/text_stream.h"
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
    assert_error(
        lsi_result_check("/proc/nonexistent/x.json"), LS_ERR_IO,
        "cannot write '/proc/nonexistent/x.json': cannot create the folder ");
    assert_error(lsi_result_check(folder), LS_ERR_IO, "it is a folder");
    assert_error(lsi_result_check(""), LS_ERR_IO, "empty name");
    assert_error(lsi_result_check("/proc/version"), LS_ERR_IO,
                 "cannot write '/proc/version'");
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

/* Files that are not regular are written to and not replaced. */
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
                 "cannot write '/dev/full': No space left");
}

static void failed_writes_change_nothing(void **state)
{
    (void)state;
    assert_error(lsi_result_write("/proc/nonexistent/x", "x", 1), LS_ERR_IO,
                 "cannot write '/proc/nonexistent/x'");
    assert_int_equal(entries(), 0);
}

/* ---- streams ------------------------------------------------------------- */

/*
 * Requests of malloc and realloc that are granted; -1: all. gcc turns a realloc
 * of NULL into a malloc. See CMakeLists.txt.
 */
static int granted = -1;

/*
 * The linker gives these names.
 * NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c)
 */
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);

static bool is_granted(void)
{
    const bool yes = granted != 0;
    granted -= granted > 0;
    return yes;
}

void *__wrap_malloc(size_t bytes)
{
    return is_granted() ? __real_malloc(bytes) : NULL;
}

void *__wrap_realloc(void *block, size_t bytes)
{
    return is_granted() ? __real_realloc(block, bytes) : NULL;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c) */

static void print_lines(FILE *file, int n)
{
    for (int i = 0; i < n; i++)
        fprintf(file, "line %d of a text that does not fit a buffer\n", i);
}

/* Whichever request for memory fails, and however much was printed after it. */
static void a_text_that_does_not_fit_is_an_error(void **state)
{
    (void)state;
    enum { LINES = 5000 };
    lsi_text_stream stream;
    char *text = NULL;
    ls_status status = LS_ERR_MEMORY;
    for (int i = 0; status != LS_OK; i++) {
        assert_true(i < 30);
        granted = i;
        status = lsi_text_stream_open(&stream);
        assert_true((status == LS_OK) == (i > 0));
        if (status == LS_OK) {
            print_lines(stream.file, LINES);
            granted = -1; /* there is memory again */
            print_lines(stream.file, 1);
            status = lsi_text_stream_close(&stream, LS_OK, &text);
        }
        granted = -1;
        if (status != LS_OK)
            assert_error(status, LS_ERR_MEMORY,
                         "not enough memory for a text longer than ");
    }
    int lines = 0;
    for (const char *at = text; *at != '\0'; at++)
        lines += *at == '\n';
    assert_int_equal(lines, LINES + 1);
    free(text);
    assert_ok(lsi_text_stream_open(&stream));
    assert_int_equal(lsi_text_stream_close(&stream, LS_ERR_IO, &text),
                     LS_ERR_IO);
    assert_ok(lsi_text_stream_open(&stream));
    assert_ok(lsi_text_stream_close(&stream, LS_OK, &text));
    assert_string_equal(text, "");
    free(text);
}

static void a_stream_replaces_a_file_when_it_is_closed(void **state)
{
    (void)state;
    lsi_result_stream stream;
    const char *path = in_folder("stream");
    assert_ok(lsi_result_write(path, "old", 3));
    chmod(path, 0600);
    assert_ok(lsi_result_open(&stream, path));
    fputs("new", stream.file);
    fflush(stream.file);
    assert_contents(path, "old");
    assert_ok(lsi_result_close(&stream, LS_OK));
    assert_contents(path, "new");
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_ok(lsi_result_open(&stream, path));
    fputs("half", stream.file);
    assert_int_equal(lsi_result_close(&stream, LS_ERR_MEMORY), LS_ERR_MEMORY);
    assert_contents(path, "new");
    assert_int_equal(entries(), 1);
    unlink(path);
}

/* A file may not grow beyond a limit, and later writes would succeed. */
static void a_stream_that_was_cut_off_replaces_nothing(void **state)
{
    (void)state;
    lsi_result_stream stream;
    const char *path = in_folder("stream");
    struct rlimit before;
    assert_ok(lsi_result_write(path, "old", 3));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_ok(lsi_result_open(&stream, path));
    const struct rlimit limit = {20000, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    print_lines(stream.file, 2000);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    fputs("end\n", stream.file);
    assert_error(lsi_result_close(&stream, LS_OK), LS_ERR_IO, path);
    assert_contents(path, "old");
    assert_int_equal(entries(), 1);
    unlink(path);
    assert_ok(lsi_result_open(&stream, "/dev/full"));
    fputs("text", stream.file);
    assert_error(lsi_result_close(&stream, LS_OK), LS_ERR_IO,
                 "cannot write '/dev/full': No space left");
    assert_error(lsi_result_open(&stream, "/proc/nonexistent/x"), LS_ERR_IO,
                 "cannot write '/proc/nonexistent/x'");
}

/* Where files can be without a name until they are complete. */
static void a_killed_process_leaves_no_part_of_a_file(void **state)
{
    (void)state;
    int status;
    const int probe = open(folder, O_TMPFILE | O_WRONLY, 0600);
    if (probe < 0)
        skip();
    close(probe);
    const pid_t child = fork();
    if (child == 0) {
        lsi_result_stream stream;
        if (lsi_result_open(&stream, in_folder("stream")) != LS_OK)
            _exit(1);
        print_lines(stream.file, 1000);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(entries(), 0);
}

static void a_stream_to_standard_output_reports_a_full_disk(void **state)
{
    (void)state;
    lsi_result_stream stream;
    fflush(stdout);
    const int before = dup(STDOUT_FILENO);
    const int full = open("/dev/full", O_WRONLY);
    assert_true(before >= 0 && full >= 0);
    dup2(full, STDOUT_FILENO);
    const ls_status opened = lsi_result_open(&stream, "-");
    fputs("text", opened == LS_OK ? stream.file : stderr);
    const ls_status closed = lsi_result_close(&stream, opened);
    dup2(before, STDOUT_FILENO);
    close(before);
    close(full);
    assert_error(closed, LS_ERR_IO, "cannot write to standard output");
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

static void lines_that_cannot_be_written(void **state)
{
    (void)state;
    lsi_jsonl *lines = NULL;
    lsi_jsonl_close(&lines);
    lsi_jsonl_close(NULL);
    assert_error(lsi_jsonl_open(&lines, "/proc/nonexistent/m.jsonl", 0),
                 LS_ERR_IO, "cannot write '/proc/nonexistent/m.jsonl'");
    assert_ok(lsi_jsonl_open(&lines, "/dev/full", 0));
    assert_error(lsi_jsonl_write(lines, json_object()), LS_ERR_IO,
                 "cannot write '/dev/full'");
    lsi_jsonl_close(&lines);
}

/* Last, because the others count what is in the folder. */
static void parents_are_made(void **state)
{
    lsi_jsonl *lines;
    (void)state;
    assert_ok(lsi_result_check(in_folder("a/b/new")));
    assert_int_equal(access(in_folder("a/b"), F_OK), 0);
    assert_int_not_equal(access(in_folder("a/b/new"), F_OK), 0);
    assert_ok(lsi_result_check_file(in_folder("c/d/new")));
    assert_ok(lsi_result_write(in_folder("e/f/new"), "x", 1));
    assert_contents(in_folder("e/f/new"), "x");
    assert_ok(lsi_result_replace(in_folder("g/h/new"), "y", 1));
    assert_contents(in_folder("g/h/new"), "y");
    assert_ok(lsi_jsonl_open(&lines, in_folder("i/j/new"), 0));
    lsi_jsonl_close(&lines);
    assert_contents(in_folder("i/j/new"), "");
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
        cmocka_unit_test(a_text_that_does_not_fit_is_an_error),
        cmocka_unit_test(a_stream_replaces_a_file_when_it_is_closed),
        cmocka_unit_test(a_stream_that_was_cut_off_replaces_nothing),
        cmocka_unit_test(a_killed_process_leaves_no_part_of_a_file),
        cmocka_unit_test(a_stream_to_standard_output_reports_a_full_disk),
        cmocka_unit_test(lines_of_json),
        cmocka_unit_test(lines_that_stay),
        cmocka_unit_test(lines_that_cannot_be_written),
        cmocka_unit_test(parents_are_made),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

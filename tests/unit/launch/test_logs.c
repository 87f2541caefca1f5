/*
 * Log files that are rotated by size: every byte is in one of them, in order.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/logs.h"
#include "testing.h"

static void read_file(const char *folder, const char *name, char out[4096])
{
    char path[4200];
    snprintf(path, sizeof(path), "%s/run/0/1/%s", folder, name);
    FILE *const file = fopen(path, "r");
    out[0] = '\0';
    if (file == NULL)
        return;
    out[fread(out, 1, 4095, file)] = '\0';
    fclose(file);
}

static void assert_file(const char *folder, const char *name,
                        const char *expected)
{
    char text[4096];
    read_file(folder, name, text);
    assert_string_equal(text, expected);
}

static void open_logs(lsi_rank_logs *logs, const char *folder,
                      lsi_rotation rotation)
{
    const lsi_logs_of of = {folder, "run", 0, 1};
    assert_ok(lsi_rank_logs_open(logs, &of, rotation));
}

static void close_logs(lsi_rank_logs *logs)
{
    lsi_log_file_close(&logs->files[0]);
    lsi_log_file_close(&logs->files[1]);
}

static void write_text(lsi_log_file *log, const char *text)
{
    lsi_log_file_write(log, text, strlen(text));
    assert_int_equal(log->error, 0);
}

static void clean(const char *folder)
{
    char command[4200];
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

static char *make_folder(char name[64])
{
    strcpy(name, "/tmp/lockstep-test-logs-XXXXXX");
    assert_non_null(mkdtemp(name));
    return name;
}

/* A file ends with the line that fills it. */
static void lines_stay_whole(void **state)
{
    (void)state;
    char folder[64];
    lsi_rank_logs logs;
    open_logs(&logs, make_folder(folder), (lsi_rotation){8, 0});
    write_text(&logs.files[0], "one\ntwo\nthree\n");
    write_text(&logs.files[0], "a line that is lo");
    write_text(&logs.files[0], "ng\n1234567\nend");
    assert_file(folder, "stdout.log.1", "one\ntwo\n");
    assert_file(folder, "stdout.log.2", "three\na line that is long\n");
    assert_file(folder, "stdout.log.3", "1234567\n");
    assert_file(folder, "stdout.log", "end");
    assert_file(folder, "stderr.log", "");
    close_logs(&logs);
    /* Another run of that name goes on where it was. */
    open_logs(&logs, folder, (lsi_rotation){8, 0});
    write_text(&logs.files[0], "ing\n5678\n9\n");
    assert_file(folder, "stdout.log.3", "1234567\n");
    assert_file(folder, "stdout.log.4", "ending\n5678\n");
    assert_file(folder, "stdout.log", "9\n");
    close_logs(&logs);
    clean(folder);
}

static void old_ones_go(void **state)
{
    (void)state;
    char folder[64];
    lsi_rank_logs logs;
    open_logs(&logs, make_folder(folder), (lsi_rotation){2, 2});
    for (int i = 0; i < 5; i++) {
        const char line[] = {(char)('a' + i), '\n', '\0'};
        write_text(&logs.files[1], line);
    }
    assert_file(folder, "stderr.log.3", "");
    assert_file(folder, "stderr.log.4", "d\n");
    assert_file(folder, "stderr.log.5", "e\n");
    assert_file(folder, "stderr.log", "");
    close_logs(&logs);
    clean(folder);
}

/* Files of others whose numbers leave no room for another. */
static void numbers_have_an_end(void **state)
{
    (void)state;
    static const char *const numbers[] = {"2147483647", "99999999999999999999",
                                          "-5", "x"};
    char folder[64], path[4200];
    lsi_rank_logs logs;
    open_logs(&logs, make_folder(folder), (lsi_rotation){2, 2});
    for (size_t i = 0; i < TEST_COUNT(numbers); i++) {
        snprintf(path, sizeof(path), "%s/run/0/1/stdout.log.%s", folder,
                 numbers[i]);
        FILE *const file = fopen(path, "w");
        assert_non_null(file);
        fclose(file);
    }
    write_text(&logs.files[0], "a\n");
    write_text(&logs.files[0], "b\n");
    assert_file(folder, "stdout.log.1", "a\n");
    assert_file(folder, "stdout.log.2", "b\n");
    close_logs(&logs);
    clean(folder);
}

static void without_a_size_there_is_one(void **state)
{
    (void)state;
    char folder[64];
    lsi_rank_logs logs;
    open_logs(&logs, make_folder(folder), (lsi_rotation){0, 0});
    lsi_log_file_write(&logs.files[0], "\0\n\xff", 3);
    char text[4096];
    read_file(folder, "stdout.log", text);
    assert_memory_equal(text, "\0\n\xff", 3);
    close_logs(&logs);
    clean(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_stay_whole),
        cmocka_unit_test(old_ones_go),
        cmocka_unit_test(numbers_have_an_end),
        cmocka_unit_test(without_a_size_there_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Lists of hosts, and messages to them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/ssh_hosts.h"
#include "launch/ssh_message.h"
#include "testing.h"

static void check(const char *text, const char *wanted)
{
    char found[512] = "";
    lsi_ssh_hosts hosts;
    assert_ok(lsi_ssh_hosts_read(text, 7, &hosts));
    for (int i = 0; i < hosts.n; i++) {
        const size_t used = strlen(found);
        snprintf(found + used, sizeof(found) - used, "%s=%d ",
                 hosts.hosts[i].name, hosts.hosts[i].ranks);
    }
    assert_string_equal(found, wanted);
    free(hosts.hosts);
}

static void test_lists(void **state)
{
    (void)state;
    lsi_ssh_hosts hosts;
    check("a", "a=7 ");
    check("a:2,b:1024,me@c.d", "a=2 b=1024 me@c.d=7 ");
    check("10.0.0.1:3", "10.0.0.1=3 ");
    static const char *const wrong[] = {
        "",        ",",         "a,",  "a:",    "a:0",
        "a:1025",  "a:-1",      "a:x", "a:2:3", "a:2 3",
        "-oProxy", "a b:2",     "a;b", "a$b",   "a:99999999999999999999",
        "a'b",     "a\tslots=0"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_error(lsi_ssh_hosts_read(wrong[i], 1, &hosts), LS_ERR_ARGUMENT,
                     "is not a host");
    assert_error(lsi_ssh_hosts_read("a,b,a:2", 1, &hosts), LS_ERR_ARGUMENT,
                 "host a is listed twice");
    assert_error(lsi_ssh_hosts_read("/none/such", 1, &hosts), LS_ERR_IO,
                 "cannot read the hosts in '/none/such'");
}

static void write_file(const char *path, const char *text)
{
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_files(void **state)
{
    (void)state;
    char path[] = "/tmp/lockstep-hosts-XXXXXX";
    lsi_ssh_hosts hosts;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_file(path, "# all\n\na slots=2\n\tb:3 # half\r\nc\nd\tslots=1");
    check(path, "a=2 b=3 c=7 d=1 ");
    write_file(path, "a\nb slots=none\n");
    assert_error(lsi_ssh_hosts_read(path, 1, &hosts), LS_ERR_ARGUMENT,
                 "line 2: 'b slots=none' is not a host");
    char text[1200] = "a\n#";
    memset(text + 3, 'c', 1100);
    write_file(path, text);
    assert_error(lsi_ssh_hosts_read(path, 1, &hosts), LS_ERR_ARGUMENT,
                 "line 2 has more than 1023 characters");
    text[3 + 1022] = '\0'; /* as long as may be, without an end */
    write_file(path, text);
    check(path, "a=7 ");
    write_file(path, "# nobody\n");
    assert_error(lsi_ssh_hosts_read(path, 1, &hosts), LS_ERR_ARGUMENT,
                 "lists no hosts");
    unlink(path);
}

/* Messages are read as they were written, wherever the stream is cut. */
static void test_messages(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "a", "12:x,", "with\nlines, and :"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char data[64];
        int ends[2];
        lsi_ssh_message m;
        assert_int_equal(pipe(ends), 0);
        lsi_ssh_message_write(ends[1], LSI_SSH_WORD, texts[i]);
        const ssize_t bytes = read(ends[0], data, sizeof(data));
        close(ends[0]);
        close(ends[1]);
        assert_true(bytes > 0);
        for (size_t part = 0; part < (size_t)bytes; part++) {
            assert_ok(lsi_ssh_message_read(data, part, &m));
            assert_int_equal(m.used, 0);
        }
        assert_ok(lsi_ssh_message_read(data, (size_t)bytes, &m));
        assert_int_equal(m.used, bytes);
        assert_int_equal(m.kind, LSI_SSH_WORD);
        assert_int_equal(m.bytes, strlen(texts[i]));
        assert_memory_equal(m.text, texts[i], m.bytes);
    }
}

/* The longest length may be cut, too. */
static void test_long_length(void **state)
{
    (void)state;
    lsi_ssh_message m;
    assert_ok(lsi_ssh_message_read("1048576", 7, &m));
    assert_int_equal(m.used, 0);
    assert_ok(lsi_ssh_message_read("1048576:A", 9, &m));
    assert_int_equal(m.used, 0);
    assert_error(lsi_ssh_message_read("1048577", 7, &m), LS_ERR_ARGUMENT,
                 "`lockstep run --hosts`");
}

static void test_what_is_no_message(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "x", ":", "0:,", "1;", "2:ab;", "12345678:", "9999999:", "-1:a,"};
    lsi_ssh_message m;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_error(lsi_ssh_message_read(wrong[i], strlen(wrong[i]), &m),
                     LS_ERR_ARGUMENT, "`lockstep run --hosts`");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_long_length),
        cmocka_unit_test(test_what_is_no_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

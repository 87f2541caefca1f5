/*
 * Files that crashed processes leave behind, and where addresses lie.
 */
#include "launch/backtrace.h"
#include "testing.h"

static const char good[] =
    "lockstep crash 1\n"
    "signal 11 address 0x10 pid 17 thread 18\n"
    "0x55d0c0de1139\n0x55d0c0de1185 call\n0x7f0000001004 call\n0x99 call\n"
    "maps\n"
    "55d0c0de0000-55d0c0de1000 r--p 00000000 08:01 17   /usr/bin/a program\n"
    "55d0c0de1000-55d0c0de2000 r-xp 00001000 08:01 17   /usr/bin/a program\n"
    "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n"
    "7f0000001000-7f0000002000 r-xp 00003000 08:01 9    /lib/b.so\n"
    "7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0    [stack]";

static void a_whole_file(void **state)
{
    (void)state;
    lsi_crash crash;
    assert_ok(lsi_crash_parse(good, sizeof(good) - 1, &crash));
    assert_int_equal(crash.signal, 11);
    assert_int_equal(crash.pid, 17);
    assert_int_equal(crash.thread, 18);
    assert_int_equal(crash.n, 4);
    assert_true(crash.frames[0].pc == 0x55d0c0de1139);
    assert_false(crash.frames[0].is_call);
    assert_true(crash.frames[1].is_call);
    static const char sent[] = "lockstep crash 1\nsignal 6 sent pid 1 thread "
                               "1\n0x1\nmaps\n";
    assert_ok(lsi_crash_parse(sent, sizeof(sent) - 1, &crash));
    assert_int_equal(crash.signal, 6);
    assert_null(crash.note);
}

static void a_note(void **state)
{
    (void)state;
    lsi_crash crash;
    static const char text[] = "lockstep crash 1\nsignal 11 address 0x10 pid 1 "
                               "thread 1\nnote what it is\n0x1\nmaps\n";
    assert_ok(lsi_crash_parse(text, sizeof(text) - 1, &crash));
    assert_int_equal(crash.note_bytes, strlen("what it is"));
    assert_memory_equal(crash.note, "what it is", crash.note_bytes);
    assert_int_equal(crash.n, 1);
}

static void lies_in(const lsi_crash *crash, uint64_t pc, const char *name,
                    uint64_t expected)
{
    size_t length = 0;
    uint64_t offset = 0;
    const char *const found = lsi_crash_module(crash, pc, &length, &offset);
    assert_int_equal(found != NULL, name != NULL);
    if (name == NULL)
        return;
    assert_int_equal(length, strlen(name));
    assert_memory_equal(found, name, length);
    assert_true(offset == expected);
}

static void modules(void **state)
{
    (void)state;
    lsi_crash crash;
    assert_ok(lsi_crash_parse(good, sizeof(good) - 1, &crash));
    lies_in(&crash, 0x55d0c0de1139, "/usr/bin/a program", 0x1139);
    lies_in(&crash, 0x7f0000001004, "/lib/b.so", 4);
    lies_in(&crash, 0x7f0000002000, NULL, 0);
    lies_in(&crash, 0x7f0000000004, NULL, 0);
    lies_in(&crash, 0x7ffc00000000, NULL, 0);
    lies_in(&crash, 0, NULL, 0);
}

/* One that was still being written, or something else. */
static void broken_files(void **state)
{
    (void)state;
    lsi_crash crash;
    const size_t maps = (size_t)(strstr(good, "maps\n") - good) + 5;
    for (size_t bytes = 0; bytes < maps; bytes++) {
        char text[sizeof(good)];
        memcpy(text, good, bytes);
        text[bytes] = '\0';
        assert_error(lsi_crash_parse(text, bytes, &crash), LS_ERR_FORMAT,
                     "not a lockstep crash file");
    }
    static const char *const texts[] = {
        "lockstep crash 2\n", "lockstep crash 1\nsignal -1 sent pid 1",
        "lockstep crash 1\nsignal 6 sent pid 1 thread 1\nmaps\n",
        "lockstep crash 1\nsignal 6 sent pid 1 thread 1\n0x\nmaps\n",
        "lockstep crash 1\nsignal 6 sent pid 1 thread 1\nnote x"};
    for (size_t i = 0; i < TEST_COUNT(texts); i++)
        assert_error(lsi_crash_parse(texts[i], strlen(texts[i]), &crash),
                     LS_ERR_FORMAT, "not a lockstep crash file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_file),
        cmocka_unit_test(a_note),
        cmocka_unit_test(modules),
        cmocka_unit_test(broken_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

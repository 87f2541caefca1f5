/*
 * Messages between launchers of several nodes: written and read back.
 */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>

#include "launch/agent_message.h"
#include "lockstep/lockstep.h"

static lsi_agent_message example(lsi_agent_word word)
{
    return (lsi_agent_message){.word = word,
                               .text = "rank 1 \"on\" b",
                               .agent = "0123456789abcdef",
                               .host = "b",
                               .machine = "ff",
                               .quota_of = "0",
                               .cpus = "0-3,8",
                               .quota = 2500,
                               .run = "night",
                               .past = "evening",
                               .job = "j",
                               .least = 2,
                               .most = 4,
                               .node = -1,
                               .local = 3,
                               .port = 65535,
                               .group = 1,
                               .groups = 2,
                               .offset = 2,
                               .world = 5,
                               .restart = 1,
                               .restarts = 3,
                               .threads = 2,
                               .verdict = 137,
                               .strength = LSI_AGENT_STRONG,
                               .number = 15};
}

static lsi_agent_message there_and_back(const lsi_agent_message *message)
{
    char *text;
    size_t bytes;
    lsi_agent_message back;
    assert_ok(lsi_agent_message_write(message, &text, &bytes));
    assert_ok(lsi_agent_message_read(text, bytes, &back));
    assert_int_equal(back.word, message->word);
    free(text);
    return back;
}

static void test_there_and_back(void **state)
{
    (void)state;
    lsi_agent_message message = example(LSI_AGENT_JOIN);
    lsi_agent_message back = there_and_back(&message);
    assert_string_equal(back.agent, message.agent);
    assert_string_equal(back.host, message.host);
    assert_string_equal(back.run, message.run);
    assert_string_equal(back.past, message.past);
    assert_int_equal(back.restart, 1);
    assert_int_equal(back.least, 2);
    assert_int_equal(back.most, 4);
    assert_int_equal(back.node, -1);
    assert_int_equal(back.local, 3);
    assert_int_equal(back.port, 65535);
    assert_string_equal(back.text, ""); /* is not part of it */
    message = example(LSI_AGENT_START);
    back = there_and_back(&message);
    assert_string_equal(back.job, "j");
    assert_int_equal(back.offset, 2);
    assert_int_equal(back.world, 5);
    assert_int_equal(back.restart, 1);
    assert_int_equal(back.restarts, 3);
    assert_int_equal(back.threads, 2);
    message = example(LSI_AGENT_FAILED);
    back = there_and_back(&message);
    assert_string_equal(back.text, message.text);
    assert_int_equal(back.verdict, 137);
    assert_int_equal(back.strength, LSI_AGENT_STRONG);
    for (int word = 0; word < LSI_AGENT_WORDS; word++) {
        message = example((lsi_agent_word)word);
        (void)there_and_back(&message);
    }
}

static void test_cpus_of_a_host(void **state)
{
    lsi_agent_message join = example(LSI_AGENT_JOIN);
    lsi_cpu_claim claim = {.machine = UINT64_MAX,
                           .quota_of = 17,
                           .quota = 2.5,
                           .ranks = 3},
                  back;
    (void)state;
    lsi_cpuset_add(&claim.cpus, 0);
    lsi_cpuset_add(&claim.cpus, LSI_CPUSET_MAX - 1);
    lsi_agent_message_set_cpus(&join, &claim);
    join = there_and_back(&join);
    lsi_agent_message_cpus(&join, &back);
    assert_memory_equal(&back, &claim, sizeof(back));
    /* Too many to be told: nothing is. */
    for (int cpu = 0; cpu < LSI_CPUSET_MAX; cpu += 2)
        lsi_cpuset_add(&claim.cpus, cpu);
    lsi_agent_message_set_cpus(&join, &claim);
    lsi_agent_message_cpus(&join, &back);
    assert_int_equal(back.machine, 0);
    /* Of somebody else. */
    strcpy(join.cpus, "0-x");
    strcpy(join.machine, "1");
    lsi_agent_message_cpus(&join, &back);
    assert_int_equal(back.machine, 0);
}

static void test_text_of_any_kind(void **state)
{
    (void)state;
    lsi_agent_message message = {.word = LSI_AGENT_SAY, .text = "a\n\033[1mb"};
    assert_string_equal(there_and_back(&message).text, "a\\x0a\\x1b[1mb");
    strcpy(message.text, "\xff\xfe"); /* no UTF-8 */
    assert_string_equal(there_and_back(&message).text, "\\xff\\xfe");
    strcpy(message.text, "no file caf\xc3"); /* cut within a character */
    assert_string_equal(there_and_back(&message).text, "no file caf\\xc3");
    memset(message.text, '\xff', sizeof(message.text) - 1); /* grows */
    assert_int_equal(strspn(there_and_back(&message).text, "\\xf") % 4, 0);
}

/* The run of a START becomes the name of a folder of logs. */
static void test_names_of_runs(void **state)
{
    (void)state;
    static const char *const bad[] = {"", ".", "..", ".a", "a/b"};
    lsi_agent_message message = example(LSI_AGENT_START);
    lsi_agent_message out;
    char *text;
    size_t bytes;
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        snprintf(message.run, sizeof(message.run), "%s", bad[i]);
        assert_ok(lsi_agent_message_write(&message, &text, &bytes));
        assert_error(lsi_agent_message_read(text, bytes, &out), LS_ERR_FORMAT,
                     "is not a valid run name");
        free(text);
    }
    message = example(LSI_AGENT_JOIN);
    message.run[0] = message.past[0] = '\0'; /* not known yet */
    assert_string_equal(there_and_back(&message).run, "");
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"", "is not valid JSON"},
        {"{", "is not valid JSON"},
        {"[]", "'word' is missing or unknown"},
        {"{\"word\":\"jump\"}", "'word' is missing or unknown"},
        {"{\"word\":3}", "'word' is missing or unknown"},
        {"{\"word\":\"done\"}",
         "'verdict' is missing or not an integer from 0 to 255"},
        {"{\"word\":\"done\",\"verdict\":256}", "'verdict' is missing or not"},
        {"{\"word\":\"done\",\"verdict\":-1}", "'verdict' is missing or not"},
        {"{\"word\":\"done\",\"verdict\":\"0\"}",
         "'verdict' is missing or not"},
        {"{\"word\":\"done\",\"verdict\":1e0}", "'verdict' is missing or not"},
        {"{\"word\":\"say\"}", "'text' is missing"},
        {"{\"word\":\"signal\",\"number\":0}",
         "'number' is missing or not an integer from 1 to 64"},
    };
    lsi_agent_message out;
    for (size_t i = 0; i < TEST_COUNT(bad); i++)
        assert_error(lsi_agent_message_read(bad[i][0], strlen(bad[i][0]), &out),
                     LS_ERR_FORMAT, bad[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_cpus_of_a_host),
        cmocka_unit_test(test_text_of_any_kind),
        cmocka_unit_test(test_names_of_runs),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Reading the error files and the tracebacks of Python programs.
 */
#include "launch/python.h"
#include "testing.h"

static void parses_to(const char *text, const char *expected)
{
    char message[64];
    json_t *json;
    assert_ok(lsi_python_error_parse(text, strlen(text), message,
                                     sizeof(message), &json));
    assert_string_equal(message, expected);
    json_decref(json);
}

static void is_refused(const char *text)
{
    char message[64];
    json_t *json;
    assert_error(lsi_python_error_parse(text, strlen(text), message,
                                        sizeof(message), &json),
                 LS_ERR_FORMAT, "the Python error file");
}

/* As torch.distributed.elastic writes it, and as it is when another does. */
static void error_files(void **state)
{
    (void)state;
    parses_to("{\"message\": {\"message\": \"ValueError: 3\", \"extraInfo\": "
              "{\"py_callstack\": \"Traceback\\n\", \"timestamp\": \"17\"}}}",
              "ValueError: 3");
    parses_to("{\"message\": \"Signal 11\"}", "Signal 11");
    parses_to("{\"message\": \"one\\ntwo\"}", "one");
    parses_to("{\"message\": \"a\\u001b[31mb\\tc\"}", "a [31mb c");
    parses_to("{\"message\": \"\"}", "");
    parses_to("{\"message\": \"0123456789012345678901234567890123456789"
              "0123456789012345678901\\u00e9\"}",
              "0123456789012345678901234567890123456789"
              "0123456789012345678901");
    parses_to("{\"message\": \"0123456789012345678901234567890123456789"
              "012345678901234567890\\u00e9\"}",
              "0123456789012345678901234567890123456789"
              "012345678901234567890\xc3\xa9");
    parses_to("{\"message\": \"0123456789012345678901234567890123456789"
              "012345678901234567890\\u20ac\"}",
              "0123456789012345678901234567890123456789"
              "012345678901234567890");
    is_refused("");
    is_refused("{");
    is_refused("[1]");
    is_refused("{\"message\": 3}");
    is_refused("{\"message\": {\"text\": \"x\"}}");
}

static void ends_with(const char *text, const char *expected)
{
    char message[64] = "";
    const bool found =
        lsi_python_last_line(text, strlen(text), message, sizeof(message));
    assert_int_equal(found, expected != NULL);
    if (expected != NULL)
        assert_string_equal(message, expected);
}

static void tracebacks(void **state)
{
    (void)state;
    ends_with("before\nTraceback (most recent call last):\n"
              "  File \"a.py\", line 3, in <module>\n    f()\n"
              "ValueError: 3\nafter\n",
              "ValueError: 3");
    ends_with("Traceback (most recent call last):\n  File\nKeyError: 1\n\n"
              "During handling of the above exception, another exception "
              "occurred:\n\nTraceback (most recent call last):\n  File\n"
              "OSError: 2",
              "OSError: 2");
    ends_with("[rank1]: Traceback (most recent call last):\n"
              "[rank1]:   File \"a.py\"\n[rank1]: RuntimeError: no\n",
              "RuntimeError: no");
    ends_with("Traceback (most recent call last):\n  File\n", NULL);
    ends_with("Traceback (most recent call last):", NULL);
    ends_with("ValueError: 3\n", NULL);
    ends_with("", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_files),
        cmocka_unit_test(tracebacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

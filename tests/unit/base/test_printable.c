/* Names as a terminal may show them. */
#include <errno.h>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "testing.h"

static const struct {
    const char *text, *shown;
} cases[] = {
    {"", ""},
    {"a b\\c", "a b\\c"},
    {"\x1b[31mred", "\\x1b[31mred"},
    {"a\nb\rc\td\x7f", "a\\x0ab\\x0dc\\x09d\\x7f"},
    /* umlaut, Chinese, combining acute, emoji */
    {"\xc3\xa4 \xe4\xb8\xad e\xcc\x81 \xf0\x9f\x98\x80",
     "\xc3\xa4 \xe4\xb8\xad e\xcc\x81 \xf0\x9f\x98\x80"},
    /* control characters above U+007F; the first character after them */
    {"\xc2\x9b"
     "31m \xc2\x80 \xc2\xa0",
     "\\x9b31m \\x80 \xc2\xa0"},
    /* not UTF-8: a byte alone, overlong, a surrogate, cut off */
    {"\xff\x9b", "\\xff\\x9b"},
    {"\xc0\xaf", "\\xc0\\xaf"},
    {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
    {"x\xe4\xb8", "x\\xe4\\xb8"},
};

static void what_is_shown(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const lsi_printable_name name = lsi_printable_of(cases[i].text);
        assert_string_equal(name.text, cases[i].shown);
        /* A printable text stays as it is. */
        assert_string_equal(lsi_printable_of(name.text).text, name.text);
    }
}

/* Characters are whole at the end. */
static void little_room(void **state)
{
    (void)state;
    char out[8];
    static const char text[] = "ab\xe4\xb8\xad\x1bx";
    static const char *const parts[] = {"",   "a",  "ab",
                                        "ab", "ab", "ab\xe4\xb8\xad"};
    for (size_t room = 1; room <= TEST_COUNT(parts); room++) {
        lsi_printable(out, room, text);
        assert_string_equal(out, parts[room - 1]);
    }
    lsi_printable(out, sizeof(out), text);
    assert_string_equal(out, "ab\xe4\xb8\xad");
}

static void errors(void **state)
{
    (void)state;
    (void)lsi_fail(LS_ERR_IO, "cannot open '%s'", "a\x1b]0;title\a\xff");
    assert_string_equal(ls_last_error(),
                        "cannot open 'a\\x1b]0;title\\x07\\xff'");
    errno = ENOENT;
    (void)lsi_fail_errno(LS_ERR_IO, "cannot open '%s'", "\r");
    assert_string_equal(ls_last_error(),
                        "cannot open '\\x0d': No such file or directory");
    (void)lsi_fail(LS_ERR_TIMEOUT, "The ranks:\n  rank 0\n  rank 1");
    assert_string_equal(ls_last_error(), "The ranks:\n  rank 0\n  rank 1");
}

/* Whatever the bytes are, they are JSON. */
static void json(void **state)
{
    (void)state;
    static const char text[] = "\xc3\xa4\xff\xe4\xb8|\x1b\xc0\xaf";
    json_t *const value = lsi_json_text(text, sizeof(text) - 1);
    assert_string_equal(json_string_value(value),
                        "\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd|\x1b\xef\xbf\xbd"
                        "\xef\xbf\xbd");
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_shown),
        cmocka_unit_test(little_room),
        cmocka_unit_test(errors),
        cmocka_unit_test(json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

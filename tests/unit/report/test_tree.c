/*
 * Trees of lines: branches, long lines, both alphabets.
 */
#include <stdio.h>
#include <stdlib.h>

#include "report/tree.h"
#include "testing.h"

static void check(const lsi_tree *tree, int columns, bool ascii,
                  const char *want)
{
    char *text;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    assert_ok(lsi_tree_print(tree, stream, columns, ascii));
    fclose(stream);
    assert_string_equal(text, want);
    free(text);
}

static void branches(void **state)
{
    (void)state;
    lsi_tree *tree;
    assert_ok(lsi_tree_new(&tree));
    check(tree, 80, true, "");
    lsi_tree_add(tree, 0, "machine");
    check(tree, 80, true, "machine\n");
    lsi_tree_add(tree, 1, "package %d", 0);
    lsi_tree_add(tree, 2, "node 0");
    lsi_tree_add(tree, 3, "cores");
    lsi_tree_add(tree, 2, "node 1");
    lsi_tree_add(tree, 1, "package 1");
    check(tree, 80, true,
          "machine\n"
          "|- package 0\n"
          "|  |- node 0\n"
          "|  |  `- cores\n"
          "|  `- node 1\n"
          "`- package 1\n");
    check(tree, 80, false,
          "machine\n"
          "├─ package 0\n"
          "│  ├─ node 0\n"
          "│  │  └─ cores\n"
          "│  └─ node 1\n"
          "└─ package 1\n");
    lsi_tree_free(&tree);
    assert_null(tree);
}

static void long_lines_are_broken(void **state)
{
    (void)state;
    lsi_tree *tree;
    assert_ok(lsi_tree_new(&tree));
    lsi_tree_add(tree, 0, "m");
    lsi_tree_add(tree, 1, "CPUs 1,2,3,4,5,6,7,8,9,10,11,12,13,14");
    lsi_tree_add(tree, 2, "a word whose_length_is_more_than_there_is_room");
    lsi_tree_add(tree, 1, "short");
    check(tree, 30, true,
          "m\n"
          "|- CPUs 1,2,3,4,5,6,7,8,9,10,\n"
          "|    11,12,13,14\n"
          "|  `- a word\n"
          "|       whose_length_is_more_than_there_is_room\n"
          "`- short\n");
    lsi_tree_free(&tree);
}

static void locales(void **state)
{
    (void)state;
    static const struct {
        const char *all, *ctype, *lang;
        bool ascii;
    } cases[] = {
        {NULL, NULL, NULL, true},           {"C", NULL, "de_DE.UTF-8", true},
        {"C.UTF-8", NULL, NULL, false},     {"", "", "en_US.utf8", false},
        {NULL, "POSIX", "C.UTF-8", true},   {NULL, "C.UTF-8", "C", false},
        {"de_DE.ISO-8859-1", "C", "", true}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const char *const values[] = {cases[i].all, cases[i].ctype,
                                      cases[i].lang};
        static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
        for (int k = 0; k < 3; k++) {
            if (values[k] != NULL)
                setenv(names[k], values[k], 1);
            else
                unsetenv(names[k]);
        }
        assert_int_equal(lsi_locale_is_ascii(), cases[i].ascii);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches),
        cmocka_unit_test(long_lines_are_broken),
        cmocka_unit_test(locales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The tests of a folder as one program: `test_comm tags [ARGUMENT...]` runs the
 * main function of test_tags.c. Without a name it lists them.
 */
#include <stdio.h>
#include <string.h>

#define X(name) int room_test_##name(int argc, char **argv);
#include "room_tests.inc"
#undef X

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} tests[] = {
#define X(name) {#name, room_test_##name},
#include "room_tests.inc"
#undef X
};

int main(int argc, char **argv)
{
    const size_t count = sizeof tests / sizeof *tests;
    for (size_t i = 0; argc > 1 && i < count; i++)
        if (strcmp(argv[1], tests[i].name) == 0)
            return tests[i].run(argc - 1, argv + 1);
    fprintf(stderr, "usage: %s TEST [ARGUMENT...], where TEST is one of\n",
            argv[0]);
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "  %s\n", tests[i].name);
    return 2;
}

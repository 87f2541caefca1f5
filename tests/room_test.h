/*
 * Included before each test file of a folder whose tests are one program: its
 * main becomes a function that the program calls (room.c).
 */
#ifndef TESTS_ROOM_TEST_H
#define TESTS_ROOM_TEST_H

/* With `void` and with two parameters. */
#define main(...)                             ROOM_MAIN(__VA_ARGS__, ROOM_MAIN_2, ROOM_MAIN_1)(__VA_ARGS__)
#define ROOM_MAIN(first, second, chosen, ...) chosen

#define ROOM_MAIN_2(argc, argv)                                                \
    ROOM_TEST(argc, argv);                                                     \
    int ROOM_TEST(argc, argv)

#define ROOM_MAIN_1(nothing)                                                   \
    ROOM_TEST(int argc, char **argv);                                          \
    static int room_test_main(nothing);                                        \
    int ROOM_TEST(int argc, char **argv)                                       \
    {                                                                          \
        (void)argc;                                                            \
        (void)argv;                                                            \
        return room_test_main();                                               \
    }                                                                          \
    static int room_test_main(nothing)

#endif

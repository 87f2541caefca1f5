#include "unit/api/nulls.h"

#include <stdio.h>

#include "base/error.h"

static const struct required {
    const char *function, *argument;
} required[] = {
#define NULL_ARGUMENT(function, argument) {#function, #argument},
#define ALL_NULL_STATUS(function, argument, call)
#define ALL_NULL_VALUE(function, call)
#define ALL_NULL_NOTHING(function, call)
#include "public_calls.inc"
#undef NULL_ARGUMENT
#undef ALL_NULL_STATUS
#undef ALL_NULL_VALUE
#undef ALL_NULL_NOTHING
};

static bool seen[TEST_COUNT(required)];

/* ---- the row that is being played ---------------------------------------- */

enum { NAME_BYTES = 64 };

static const char *row_function;
static const char *row_rest; /* of the arguments whose turn will come */
static char turn[NAME_BYTES];

void nulls_begin(const char *function, const char *arguments)
{
    row_function = function;
    row_rest = arguments;
}

static void note(void)
{
    for (size_t i = 0; i < TEST_COUNT(required); i++) {
        if (strcmp(required[i].function, row_function) == 0 &&
            strcmp(required[i].argument, turn) == 0) {
            seen[i] = true;
            return;
        }
    }
    fail_msg("%s has no argument \"%s\" that is a pointer", row_function, turn);
}

bool nulls_next(void)
{
    row_rest += strspn(row_rest, " ");
    const size_t n = strcspn(row_rest, " ");
    if (n == 0)
        return false;
    assert_true(n < sizeof turn);
    memcpy(turn, row_rest, n);
    turn[n] = '\0';
    row_rest += n;
    note();
    lsi_fail(LS_OK, "nothing yet");
    return true;
}

bool nulls_is_turn(const char *argument)
{
    return strcmp(argument, turn) == 0;
}

/* ---- what came of it ----------------------------------------------------- */

void nulls_check(bool good, const char *what)
{
    if (!good)
        fail_msg("%s without %s: not %s", row_function, turn, what);
}

/* The names of operations begin after ls_. */
static bool names(const char *function)
{
    return strstr(ls_last_error(), function) != NULL ||
           strstr(ls_last_error(), function + strlen("ls_")) != NULL;
}

void nulls_check_refused(const char *called, ls_status status)
{
    if (status != LS_ERR_ARGUMENT || !names(called) ||
        strstr(ls_last_error(), turn) == NULL ||
        strstr(ls_last_error(), "NULL") == NULL)
        fail_msg("%s without %s: %s, \"%s\"", row_function, turn,
                 ls_status_name(status), ls_last_error());
}

void nulls_check_taken(ls_status status)
{
    if (status != LS_OK)
        fail_msg("%s without %s: %s, \"%s\"", row_function, turn,
                 ls_status_name(status), ls_last_error());
}

void nulls_check_stopped(ls_tape *tape, const void *result)
{
    nulls_check(result == NULL, "NULL");
    if (strstr(ls_last_error(), "NULL") == NULL)
        fail_msg("%s without %s: \"%s\"", row_function, turn, ls_last_error());
    if (strcmp(turn, "tape") == 0)
        return;
    char first[512];
    snprintf(first, sizeof first, "%s", ls_last_error());
    assert_null(ls_tape_fail(tape, LS_ERR_IO, "something else"));
    assert_int_equal(ls_tape_status(tape), LS_ERR_ARGUMENT);
    assert_string_equal(ls_last_error(), first);
    ls_tape_reset(tape);
}

/* ---- all arguments at once ----------------------------------------------- */

#if defined(__GNUC__)
#    pragma GCC diagnostic ignored "-Wformat-security"
#    pragma GCC diagnostic ignored "-Wformat-nonliteral"
#endif

static void check_all_refused(const char *function, const char *argument,
                              ls_status status)
{
    row_function = function;
    snprintf(turn, sizeof turn, "%s", argument);
    nulls_check_refused(function, status);
}

/* 0, NULL and false, or what stands for none where 0 means something. */
static void check_all_value(const char *function, intmax_t value)
{
    if (value != 0 && value != -1)
        fail_msg("%s of NULLs: %lld", function, (long long)value);
}

static void nulls_alone(void **state)
{
    void *volatile hidden = NULL; /* from warnings about NULL */
    void *null = hidden;
    (void)state;
#define NULL_ARGUMENT(function, argument)
#define ALL_NULL_STATUS(function, argument, call)                              \
    check_all_refused(#function, argument, call);
#define ALL_NULL_VALUE(function, call)                                         \
    check_all_value(#function, (intmax_t)(call));
#define ALL_NULL_NOTHING(function, call) call;
#include "public_calls.inc"
}

static void every_argument_has_a_row(void **state)
{
    int missing = 0;
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(required); i++) {
        if (!seen[i]) {
            print_error("no row for %s without %s\n", required[i].function,
                        required[i].argument);
            missing++;
        }
    }
    assert_int_equal(missing, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nulls_alone),
        cmocka_unit_test(nulls_of_tensors),
        cmocka_unit_test(nulls_of_parameters),
        cmocka_unit_test(nulls_of_tapes),
        cmocka_unit_test(nulls_of_operations),
        cmocka_unit_test(nulls_of_groups),
        cmocka_unit_test(nulls_of_collectives),
        cmocka_unit_test(nulls_of_data),
        cmocka_unit_test(nulls_of_tokenizers),
        cmocka_unit_test(nulls_of_attention),
        cmocka_unit_test(nulls_of_layers),
        cmocka_unit_test(nulls_of_transformers),
        cmocka_unit_test(nulls_of_image_nets),
        cmocka_unit_test(nulls_of_optimizers),
        cmocka_unit_test(nulls_of_data_parallelism),
        cmocka_unit_test(nulls_of_checkpoints),
        cmocka_unit_test(nulls_of_audits),
        cmocka_unit_test(every_argument_has_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

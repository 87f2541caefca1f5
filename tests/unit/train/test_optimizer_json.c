/* The optimizer in a manifest, right and wrong. */
#include "testing.h"

#include "model/checkpoint/optimizer_json.h"
#include "model/optim/optimizer.h"

#define GROUP(steps, state, names)                                             \
    "{\"kind\": \"adamw\", \"groups\": [{\"steps\": " steps                    \
    ", \"state\": " state ", \"parameters\": " names "}]}"
#define STATE "[\"exp_avg\", \"exp_avg_sq\"]"
#define BOTH  "[\"v\", \"w\"]"

static ls_params *params;
static ls_optimizer *optimizer;

static int make(void **state)
{
    const ls_init ones = {LS_INIT_CONSTANT, 1, 0};
    const int64_t shape[] = {3};
    ls_tensor *tensor = NULL;
    (void)state;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_params_add(params, "w", 1, shape, ones, &tensor));
    assert_ok(ls_params_add(params, "v", 1, shape, ones, &tensor));
    assert_ok(ls_params_allocate(params, NULL, 1));
    assert_ok(ls_optimizer_new(&optimizer, params, NULL));
    return 0;
}

static int drop(void **state)
{
    (void)state;
    ls_optimizer_free(&optimizer);
    ls_params_free(&params);
    return 0;
}

static ls_status check(const char *text)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(json);
    const ls_status status = lsi_optimizer_json_check(json, optimizer);
    if (status == LS_OK)
        lsi_optimizer_json_apply(json, optimizer);
    json_decref(json);
    return status;
}

static void what_was_saved_is_taken(void **state)
{
    (void)state;
    assert_ok(check(GROUP("5", STATE, BOTH)));
    json_t *json = lsi_optimizer_json(optimizer);
    const json_t *groups = json_object_get(json, "groups");
    const json_t *steps = json_object_get(json_array_get(groups, 0), "steps");
    assert_int_equal(json_integer_value(steps), 5);
    json_decref(json);
    assert_ok(check(GROUP("0", STATE, BOTH)));
}

static const struct damage {
    const char *text, *message;
} damages[] = {
    {"null", "saved with no optimizer"},
    {"{\"kind\": \"sgd\", \"groups\": []}", "saved with sgd"},
    {"{\"kind\": \"adamw\", \"groups\": 7}", "no optimizer state"},
    {GROUP("1", STATE, "[\"v\"]"), "no optimizer state for 'w'"},
    {GROUP("1", STATE, "[5, null]"), "no optimizer state for 'w'"},
    {GROUP("1", "[\"exp_avg\"]", BOTH), "the optimizer state of 'w'"},
    {GROUP("-1", STATE, BOTH), "step count of 'w' in the checkpoint is -1"},
    {GROUP("-9223372036854775808", STATE, BOTH), "it must be at least 0"},
};

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(damages); i++)
        assert_error(check(damages[i].text), LS_ERR_FORMAT, damages[i].message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_saved_is_taken),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, make, drop);
}

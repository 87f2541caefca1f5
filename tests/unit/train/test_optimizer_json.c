/* What a manifest says about an optimizer, right and wrong. */
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
    {"null", "the state of no optimizer"},
    {"{\"kind\": \"sgd\", \"groups\": []}", "the state of sgd"},
    {"{\"kind\": \"adamw\", \"groups\": 7}", "no state of the optimizer"},
    {GROUP("1", STATE, "[\"v\"]"), "no state of the optimizer for 'w'"},
    {GROUP("1", STATE, "[5, null]"), "no state of the optimizer for 'w'"},
    {GROUP("1", "[\"exp_avg\"]", BOTH), "different state for 'w'"},
    {GROUP("-1", STATE, BOTH), "'w' has taken -1 steps"},
    {GROUP("-9223372036854775808", STATE, BOTH), "it should be 0 or more"},
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

/* Which flags of a file the command line drops. */
#include <stdio.h>

#include "cli/frame/config_rules.h"
#include "model/parallel/strategy.h"
#include "testing.h"

static json_t *parse(const char *text)
{
    json_t *const out = json_loads(text, 0, NULL);
    assert_non_null(out);
    return out;
}

/* The file has `flags` and these `changes` are on the command line. */
static void expect(const char *flags, const char *changes, const char *chosen,
                   const char *left)
{
    json_t *const file = parse(flags), *const both = parse(flags);
    json_t *const more = parse(changes), *const names = parse(chosen);
    json_t *const kept = parse(flags), *const expected = parse(left);
    json_object_update(both, more);
    const bool dropped = lsi_config_rules_apply(file, both, names, kept);
    if (!json_equal(kept, expected))
        fail_msg("%s over %s leaves %s", changes, flags, json_dumps(kept, 0));
    assert_true(dropped == !json_equal(file, expected));
    json_t *const all[] = {file, both, more, names, kept, expected};
    for (size_t i = 0; i < TEST_COUNT(all); i++)
        json_decref(all[i]);
}

static void what_excludes_is_dropped(void **state)
{
    (void)state;
    expect("{\"no-save\": false, \"output-dir\": \"x\", \"save\": \"m\"}",
           "{\"no-save\": true}", "[]", "{\"no-save\": false}");
    expect("{\"no-save\": true}", "{\"save\": \"m\"}", "[]", "{}");
    expect("{\"accumulate\": 2}", "{\"tokens-per-step\": 64}", "[]", "{}");
    expect("{\"tokens-per-step\": 64}", "{\"accumulate\": 2}", "[]", "{}");
    expect("{\"weights\": \"w\", \"steps\": 2}", "{\"layers\": 2}", "[]",
           "{\"steps\": 2}");
    expect("{\"layers\": 2, \"init\": \"i\"}", "{\"weights\": \"w\"}", "[]",
           "{}");
    expect("{\"resume\": true, \"new-schedule\": true}", "{\"resume\": false}",
           "[]", "{\"resume\": true}");
}

static void what_is_the_same_drops_nothing(void **state)
{
    (void)state;
    static const char file[] =
        "{\"optimizer\": \"sgd\", \"lr\": 1, \"save\": \"m\"}";
    expect(file, "{\"optimizer\": \"sgd\"}", "[\"lr\"]", file);
    expect(file, "{\"seed\": 2}", "[\"lr\"]", file);
    expect(file, "{\"no-save\": false}", "[\"lr\"]", file);
}

static void only_choices_follow(void **state)
{
    (void)state;
    static const char file[] =
        "{\"optimizer\": \"sgd\", \"lr\": 1, \"weight-decay\": 0}";
    expect(file, "{\"optimizer\": \"lion\"}", "[\"lr\"]",
           "{\"optimizer\": \"sgd\", \"weight-decay\": 0}");
    expect(file, "{\"optimizer\": \"lion\"}", "[]", file);
    expect("{\"layers\": 2, \"d-model\": 8}", "{\"size\": \"gpt2\"}",
           "[\"d-model\"]", "{\"layers\": 2}");
}

/* The rule names the strategies that refuse a limit of buckets. */
static void strategies_without_buckets(void **state)
{
    (void)state;
    for (int i = 1; i <= LS_DDP_STRATEGY_COUNT; i++) {
        const ls_ddp_options options = {.strategy = (ls_ddp_strategy)i,
                                        .bucket_bytes = 1};
        const lsi_strategy *strategy;
        uint64_t bytes;
        char change[64];
        snprintf(change, sizeof(change), "{\"strategy\": \"%s\"}",
                 ls_ddp_strategy_name((ls_ddp_strategy)i));
        const bool fits =
            lsi_strategy_of(&options, 1, &strategy, &bytes) == LS_OK;
        expect("{\"bucket-mb\": 1}", change, "[]",
               fits ? "{\"bucket-mb\": 1}" : "{}");
        expect("{\"bucket-mb\": 1}", change, "[\"bucket-mb\"]", "{}");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_excludes_is_dropped),
        cmocka_unit_test(what_is_the_same_drops_nothing),
        cmocka_unit_test(only_choices_follow),
        cmocka_unit_test(strategies_without_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

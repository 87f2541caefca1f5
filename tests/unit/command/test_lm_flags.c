/*
 * The shapes of language models that flags select, and their names.
 */
#include <string.h>

#include "cli/bench/ddp_model.h"
#include "cli/frame/lm_flags.h"
#include "testing.h"

static const lsi_lm_shape_flags plain = {.rope = "pairs", .attention = "flash"};

static void names(void **state)
{
    (void)state;
    ls_transformer_config tiny = LS_TRANSFORMER_CONFIG_INIT, config;
    char name[LSI_LM_NAME_BYTES];
    assert_ok(ls_transformer_size("tiny", &tiny));
    lsi_cli_lm_name("tiny", &tiny, name);
    assert_string_equal(name, "tiny");
    config = tiny;
    config.context = 7; /* is not part of the shape */
    config.attention = LS_ATTENTION_NAIVE;
    lsi_cli_lm_name("tiny", &config, name);
    assert_string_equal(name, "tiny");
    config.layers = 6;
    config.d_model = 384;
    lsi_cli_lm_name("tiny", &config, name);
    assert_string_equal(name, "6x384");
    config = tiny;
    config.vocabulary++;
    lsi_cli_lm_name("tiny", &config, name);
    assert_int_equal(strspn(name, "0123456789x"), strlen(name));
    lsi_cli_lm_name("small", &tiny, name);
    assert_string_not_equal(name, "small");
}

static void models_of_benchmarks(void **state)
{
    (void)state;
    lsi_ddp_model_spec spec;
    lsi_ddp_model_flags flags = {.shape = plain};
    assert_ok(lsi_ddp_model_parse(&flags, &spec));
    assert_false(spec.is_lm);
    assert_string_equal(spec.name, "mlp");
    assert_int_equal(spec.width, LSI_MLP_WIDTH);
    flags.shape.size = "small";
    assert_ok(lsi_ddp_model_parse(&flags, &spec));
    assert_true(spec.is_lm);
    assert_string_equal(spec.name, "small");
    flags.shape.size = NULL;
    flags.shape.layers = 3;
    flags.shape.d_ff = 48;
    assert_ok(lsi_ddp_model_parse(&flags, &spec));
    assert_true(spec.is_lm);
    assert_int_equal(strncmp(spec.name, "3x", 2), 0);
    assert_int_equal(spec.config.layers, 3);
    assert_int_equal(spec.config.d_ff, 48);
    flags.arch = "mlp:8";
    assert_error(lsi_ddp_model_parse(&flags, &spec), LS_ERR_ARGUMENT,
                 "--arch mlp:8 does not support --layers");
    flags.shape = plain;
    assert_ok(lsi_ddp_model_parse(&flags, &spec));
    assert_int_equal(spec.width, 8);
    flags.shape.size = "tiny";
    assert_error(lsi_ddp_model_parse(&flags, &spec), LS_ERR_ARGUMENT,
                 "each name a model");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(models_of_benchmarks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

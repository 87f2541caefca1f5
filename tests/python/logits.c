/*
 * The logits of a language model for some tokens, as text:
 *
 *     logits FOLDER TOKEN...
 */
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

static void check(ls_status status)
{
    if (status == LS_OK)
        return;
    fprintf(stderr, "logits: %s\n", ls_last_error());
    exit(1);
}

static ls_transformer *open_model(const char *folder, ls_params *params)
{
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    ls_transformer *model = NULL;
    check(ls_transformer_read_config(folder, &config));
    check(ls_transformer_new(&model, params, &config));
    check(ls_params_allocate(params, NULL, 1));
    check(ls_transformer_load(model, folder));
    return model;
}

static ls_tensor *read_tokens(int n, char **words)
{
    ls_tensor *tokens = NULL;
    int64_t *ids = NULL;
    check(ls_tensor_new(&tokens, LS_I64, 2, (const int64_t[]){1, n}));
    check(ls_tensor_map_i64(tokens, &ids));
    for (int i = 0; i < n; i++)
        ids[i] = strtoll(words[i], NULL, 10);
    return tokens;
}

int main(int argc, char **argv)
{
    ls_params *params = NULL;
    ls_tape *tape = NULL;
    float *values = NULL;
    if (argc < 3)
        return 2;
    check(ls_params_new(&params));
    ls_transformer *model = open_model(argv[1], params);
    ls_tensor *tokens = read_tokens(argc - 2, argv + 2);
    check(ls_tape_new(&tape));
    ls_tensor *logits = ls_transformer_forward(model, tape, tokens);
    check(ls_tape_status(tape));
    check(ls_tensor_map_f32(logits, &values));
    for (int64_t i = 0; i < ls_tensor_count(logits); i++)
        printf("%.9g\n", (double)values[i]);
    ls_tape_free(&tape);
    ls_tensor_free(&tokens);
    ls_transformer_free(&model);
    ls_params_free(&params);
    return 0;
}

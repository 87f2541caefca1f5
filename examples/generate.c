/*
 * Text from a language model, token by token.
 *
 *     generate FOLDER "Once upon a time"
 *
 * The folder is one of GPT-2 or Llama weights as Hugging Face's transformers
 * write it: config.json, model.safetensors and tokenizer.json. Without
 * arguments a small model that has learned nothing shows the same of numbers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

enum { TOKENS = 100 };

static void check(ls_status status)
{
    if (status == LS_OK)
        return;
    fprintf(stderr, "generate: %s\n", ls_last_error());
    exit(1);
}

/* The weights of the folder, or random ones; none is to be trained. */
static ls_transformer *open_model(const char *folder, ls_params *params)
{
    ls_transformer_config config = {.vocabulary = 50,
                                    .context = 32,
                                    .d_model = 16,
                                    .d_ff = 32,
                                    .layers = 2,
                                    .heads = 2};
    ls_transformer *model = NULL;
    if (folder != NULL)
        check(ls_transformer_read_config(folder, &config));
    check(ls_transformer_new(&model, params, &config));
    for (size_t i = 0; i < ls_params_count(params); i++)
        check(ls_params_set_trainable(params, ls_params_get(params, i), false));
    check(ls_params_allocate(params, NULL, 1));
    if (folder != NULL)
        check(ls_transformer_load(model, folder));
    return model;
}

static int64_t likeliest(ls_tensor *logits)
{
    float *data = NULL;
    int64_t best = 0;
    check(ls_tensor_map_f32(logits, &data));
    for (int64_t i = 1; i < ls_tensor_count(logits); i++)
        if (data[i] > data[best])
            best = i;
    return best;
}

/* The likeliest token after n more. */
static int64_t next(const ls_transformer *model, ls_tape *tape,
                    ls_transformer_cache *cache, int64_t *ids, size_t n)
{
    ls_tensor *tokens = NULL;
    check(ls_tensor_wrap(&tokens, ids, LS_I64, 2,
                         (const int64_t[]){1, (int64_t)n}, NULL));
    ls_tensor *logits = ls_transformer_extend(model, tape, cache, 0, tokens);
    check(ls_tape_status(tape));
    const int64_t best = likeliest(logits);
    ls_tape_reset(tape);
    ls_tensor_free(&tokens);
    return best;
}

static void show(ls_decoder *decoder, int64_t id)
{
    const char *text = NULL;
    size_t bytes = 0;
    if (decoder == NULL) {
        printf("%lld ", (long long)id);
        return;
    }
    check(ls_decoder_push(decoder, id, &text, &bytes));
    fwrite(text, 1, bytes, stdout);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    ls_params *params = NULL;
    ls_tape *tape = NULL;
    ls_transformer_cache *cache = NULL;
    ls_tokenizer *tokenizer = NULL;
    ls_decoder *decoder = NULL;
    int64_t numbers[] = {3, 1, 4}, *ids = NULL;
    size_t n = 3;

    check(ls_params_new(&params));
    ls_transformer *model = open_model(argc > 2 ? argv[1] : NULL, params);
    if (argc > 2) {
        check(ls_tokenizer_open(&tokenizer, argv[1]));
        check(ls_tokenizer_encode(tokenizer, argv[2], strlen(argv[2]),
                                  LS_TOKENIZER_SPECIAL, &ids, &n));
        check(ls_decoder_new(&decoder, tokenizer, LS_TOKENIZER_PLAIN));
    }
    int64_t *prompt = argc > 2 ? ids : numbers;
    for (size_t i = 0; i < n; i++)
        show(decoder, prompt[i]);

    check(ls_tape_new(&tape));
    ls_tape_set_training(tape, false);
    check(ls_transformer_cache_new(&cache, model, 1, 0));
    int64_t id = next(model, tape, cache, prompt, n);
    const int64_t end = tokenizer != NULL ? ls_tokenizer_end(tokenizer) : -1;
    for (int i = 0; i < TOKENS && id != end; i++) {
        show(decoder, id);
        id = next(model, tape, cache, &id, 1);
    }
    printf("\n");

    ls_transformer_cache_free(&cache);
    ls_tape_free(&tape);
    ls_decoder_free(&decoder);
    ls_tokenizer_close(&tokenizer);
    ls_free(ids);
    ls_transformer_free(&model);
    ls_params_free(&params);
    return 0;
}

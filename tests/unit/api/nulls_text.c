/* Tokenizers. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit/api/nulls.h"

static void nulls_of_decoders(const ls_tokenizer *t)
{
    ls_decoder *decoder = NULL, *none = NULL;
    const char *text = NULL;
    size_t bytes = 0;
    REFUSES(ls_decoder_new, "out tokenizer", P(out, &decoder), P(tokenizer, t),
            LS_TOKENIZER_SPECIAL);
    assert_ok(ls_decoder_new(&decoder, t, LS_TOKENIZER_SPECIAL));
    REFUSES(ls_decoder_push, "decoder text bytes", P(decoder, decoder), 0,
            P(text, &text), P(bytes, &bytes));
    REFUSES(ls_decoder_finish, "decoder text bytes", P(decoder, decoder),
            P(text, &text), P(bytes, &bytes));
    ls_decoder_free(&none);
    ls_decoder_free(&decoder);
}

static void nulls_of_training(const char *path)
{
    const char *const paths[] = {path};
    const ls_tokenizer_training how = {.vocabulary = 256, .least = 1};
    ls_tokenizer *t = NULL;
    ls_group *group = NULL;
    assert_ok(ls_group_open_threads(&group, 1));
    REFUSES(ls_tokenizer_new_trained, "out group paths", P(out, &t),
            P(group, group), P(paths, paths), 1, &how);
    for (nulls_begin("ls_tokenizer_new_trained", "training"); nulls_next();) {
        nulls_check_taken(ls_tokenizer_new_trained(&t, group, paths, 1, NULL));
        ls_tokenizer_close(&t);
    }
    ls_group_close(&group);
}

void nulls_of_tokenizers(void **state)
{
    char path[] = "/tmp/lockstep-nulls-XXXXXX", *text = NULL;
    const int64_t id = 0;
    ls_tokenizer *t = NULL, *none = NULL;
    int64_t *ids = NULL;
    size_t n = 0;
    size_t bytes = 0;
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    fputs("{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}", file);
    fclose(file);
    REFUSES(ls_tokenizer_open, "out path", P(out, &t), P(path, path));
    assert_ok(ls_tokenizer_open(&t, path));
    REFUSES(ls_tokenizer_save, "tokenizer path", P(tokenizer, t),
            P(path, path));
    GIVES(-1, ls_tokenizer_id, "tokenizer token", P(tokenizer, t),
          P(token, "a"));
    REFUSES(ls_tokenizer_encode, "tokenizer text ids n", P(tokenizer, t),
            P(text, "a"), 1, LS_TOKENIZER_PLAIN, P(ids, &ids), P(n, &n));
    REFUSES(ls_tokenizer_decode, "tokenizer ids text bytes", P(tokenizer, t),
            P(ids, &id), 1, LS_TOKENIZER_PLAIN, P(text, &text),
            P(bytes, &bytes));
    nulls_of_decoders(t);
    nulls_of_training(path);
    unlink(path);
    ls_tokenizer_close(&none);
    ls_tokenizer_close(&t);
}

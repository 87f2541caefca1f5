/*
 * Files of tokens: the same bytes for any number of ranks, and what the texts
 * become; nothing where it fails.
 */
#include "input/text/token_file.h"

#include "lockstep/lockstep.h"
#include "unit/comm/ranks.h"
#include "unit/text/corpus_file.h"

static corpus_file corpus;
static char own_folder[72], out_path[88], bad_path[80];

typedef struct call {
    lsi_tokenize_job job;
    lsi_tokenize_result result;
    ls_status status;
    char message[512];
} call;

static void write_file(ls_group *group, void *argument)
{
    call *const c = argument;
    lsi_tokenize_result result = {.bytes = 0};
    const ls_status status = lsi_tokenize_files(group, &c->job, &result);
    if (ls_group_rank(group) == 0) {
        c->status = status;
        snprintf(c->message, sizeof c->message, "%s", ls_last_error());
        c->result = result;
    } else {
        CHECK(status == LS_OK || result.bytes == 0);
    }
}

static uint8_t *contents(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(*bytes + 1);
    assert_int_equal(fread(data, 1, *bytes, file), *bytes);
    fclose(file);
    return data;
}

/* Two texts with their ends: read back by the library they are the same. */
static void check_tokens(const ls_tokenizer *t, const lsi_tokenize_result *r)
{
    ls_tokens *tokens = NULL;
    size_t text_bytes, decoded;
    char *made = NULL;
    const int64_t end = ls_tokenizer_end(t);
    uint8_t *text = contents(corpus.path, &text_bytes);
    assert_ok(ls_tokens_new(&tokens, out_path, LS_TOKENS_LLMC));
    const int64_t n = ls_tokens_count(tokens);
    assert_int_equal(n, (int64_t)r->tokens);
    assert_int_equal(r->bytes, 2 * text_bytes);
    int64_t *ids = malloc((size_t)n * sizeof *ids);
    assert_ok(ls_tokens_read(tokens, 0, ids, n));
    assert_int_equal(ids[n / 2 - 1], end);
    assert_int_equal(ids[n - 1], end);
    assert_memory_equal(ids, ids + n / 2, (size_t)(n / 2) * sizeof *ids);
    assert_ok(ls_tokenizer_decode(t, ids, n / 2, LS_TOKENIZER_PLAIN, &made,
                                  &decoded));
    assert_int_equal(decoded, text_bytes);
    assert_memory_equal(made, text, text_bytes);
    ls_free(made);
    free(ids);
    free(text);
    ls_tokens_free(&tokens);
}

static void any_number_of_ranks(void **state)
{
    static const int sizes[] = {1, 2, 3, 5};
    const char *const paths[] = {corpus.path, corpus.path};
    uint8_t *first = NULL;
    size_t bytes = 0, more;
    ls_tokenizer *t = NULL;
    (void)state;
    assert_ok(ls_tokenizer_open(&t, TOKENIZERS "/gpt2.json"));
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        call c = {.job = {.tokenizer = t,
                          .paths = paths,
                          .n = 2,
                          .out = out_path,
                          .end_tokens = true}};
        run_threads(sizes[i], write_file, &c);
        assert_int_equal(c.status, LS_OK);
        assert_int_equal(c.result.width, 2);
        uint8_t *data = contents(out_path, &more);
        if (first == NULL) {
            check_tokens(t, &c.result);
            first = data;
            bytes = more;
            continue;
        }
        assert_int_equal(bytes, more);
        assert_memory_equal(first, data, bytes);
        free(data);
    }
    free(first);
    ls_tokenizer_close(&t);
}

/* The last block is wrong, and on another rank than the one that writes. */
static void nothing_where_it_fails(void **state)
{
    const char *const paths[] = {corpus.path, bad_path};
    ls_tokenizer *t = NULL;
    (void)state;
    unlink(out_path);
    FILE *file = fopen(bad_path, "w");
    fputs("a text\xff", file);
    fclose(file);
    assert_ok(ls_tokenizer_open(&t, TOKENIZERS "/gpt2.json"));
    for (int ranks = 1; ranks <= 3; ranks++) {
        call c = {
            .job = {.tokenizer = t, .paths = paths, .n = 2, .out = out_path}};
        run_threads(ranks, write_file, &c);
        assert_int_equal(c.status, LS_ERR_FORMAT);
        assert_int_not_equal(access(out_path, F_OK), 0);
    }
    ls_tokenizer_close(&t);
}

static void count_calls(void *context, size_t done, size_t all)
{
    CHECK(done < all);
    ++*(int *)context;
}

/* Three blocks, of which the first has too many tokens: one round of two. */
static void stops_at_the_limit(void **state)
{
    const char *const paths[] = {corpus.path}, *const small[] = {bad_path};
    ls_tokenizer *t = NULL;
    int calls = 0;
    (void)state;
    assert_ok(ls_tokenizer_open(&t, TOKENIZERS "/gpt2.json"));
    call c = {.job = {.tokenizer = t,
                      .paths = paths,
                      .n = 1,
                      .out = out_path,
                      .most = 1000,
                      .progress = count_calls,
                      .context = &calls}};
    run_threads(2, write_file, &c);
    assert_int_equal(c.status, LS_ERR_FORMAT);
    assert_int_equal(calls, 1);
    assert_non_null(strstr(c.message, "more than 1000 tokens"));
    assert_non_null(strstr(c.message, "reached after 6 of 9 MB"));
    assert_int_not_equal(access(out_path, F_OK), 0);

    FILE *file = fopen(bad_path, "w");
    fputs("a text", file);
    fclose(file);
    c.job = (lsi_tokenize_job){
        .tokenizer = t, .paths = small, .n = 1, .out = out_path};
    run_threads(1, write_file, &c);
    assert_int_equal(c.status, LS_OK);
    c.job.most = (uint32_t)c.result.tokens;
    run_threads(1, write_file, &c);
    assert_int_equal(c.status, LS_OK);
    c.job.most--;
    run_threads(1, write_file, &c);
    assert_int_equal(c.status, LS_ERR_FORMAT);
    ls_tokenizer_close(&t);
}

static int make(void **state)
{
    (void)state;
    corpus_make(&corpus, 5);
    /* In a folder that the first write makes. */
    snprintf(own_folder, sizeof own_folder, "%s.d", corpus.path);
    snprintf(out_path, sizeof out_path, "%s/tokens.bin", own_folder);
    snprintf(bad_path, sizeof bad_path, "%s.bad", corpus.path);
    return 0;
}

static int clear(void **state)
{
    (void)state;
    unlink(out_path);
    rmdir(own_folder);
    unlink(bad_path);
    return unlink(corpus.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks),
        cmocka_unit_test(nothing_where_it_fails),
        cmocka_unit_test(stops_at_the_limit),
    };
    return cmocka_run_group_tests(tests, make, clear);
}

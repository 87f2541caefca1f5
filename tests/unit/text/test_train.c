/*
 * A trained vocabulary is that of the definition, which counts all pairs again
 * for each merge, for any number of ranks.
 */
#include "input/text/tokenizer.h"
#include "lockstep/lockstep.h"
#include "unit/comm/ranks.h"
#include "unit/text/corpus_file.h"

enum { VOCABULARY = 400, MOST_BYTES = 64 };

/* ---- the definition ------------------------------------------------------ */

typedef struct word {
    int64_t count;
    uint32_t tokens[WORD_BYTES];
    int n;
} word;

typedef struct reference {
    word words[WORDS + 1];
    char texts[VOCABULARY][MOST_BYTES]; /* of the tokens that merges made */
    uint32_t n;
    lsi_merge merges[2 * VOCABULARY];
    int n_merges;
} reference;

static reference expected;

static void spell(word *out, const ls_tokenizer *t, const char *text,
                  int64_t count)
{
    out->count = count;
    for (out->n = 0; text[out->n] != '\0'; out->n++) {
        const char one[] = {text[out->n], '\0'};
        /* A blank is written as U+0120. */
        out->tokens[out->n] =
            (uint32_t)ls_tokenizer_id(t, one[0] == ' ' ? "\xc4\xa0" : one);
    }
}

/* The number of the token with that text, which is new if nobody has it. */
static uint32_t number_of(reference *r, uint32_t left, uint32_t right)
{
    char text[2 * MOST_BYTES];
    snprintf(text, sizeof text, "%s%s", r->texts[left], r->texts[right]);
    for (uint32_t i = 0; i < r->n; i++)
        if (strcmp(r->texts[i], text) == 0)
            return i;
    memcpy(r->texts[r->n], text, MOST_BYTES);
    return r->n++;
}

static int64_t best_pair(const reference *r, uint32_t *left, uint32_t *right)
{
    static int64_t counts[VOCABULARY][VOCABULARY];
    int64_t best = 0;
    memset(counts, 0, sizeof counts);
    for (int i = 0; i <= WORDS; i++)
        for (int k = 0; k + 1 < r->words[i].n; k++)
            counts[r->words[i].tokens[k]][r->words[i].tokens[k + 1]] +=
                r->words[i].count;
    for (uint32_t a = 0; a < VOCABULARY; a++)
        for (uint32_t b = 0; b < VOCABULARY; b++)
            if (counts[a][b] > best) {
                best = counts[a][b];
                *left = a;
                *right = b;
            }
    return best;
}

static void merge(word *w, const lsi_merge *m)
{
    int n = 0;
    for (int i = 0; i < w->n; i++) {
        const bool fits = i + 1 < w->n && w->tokens[i] == m->left &&
                          w->tokens[i + 1] == m->right;
        w->tokens[n++] = fits ? m->whole : w->tokens[i];
        i += fits;
    }
    w->n = n;
}

static void learn(reference *r, const corpus_file *c, const ls_tokenizer *bytes)
{
    char text[WORD_BYTES + 1];
    for (int i = 0; i < WORDS; i++) {
        snprintf(text, sizeof text, " %s", c->words[i]);
        spell(&r->words[i], bytes, text, c->counts[i]);
    }
    spell(&r->words[WORDS], bytes, c->words[c->first], 1);
    r->n = (uint32_t)ls_tokenizer_vocabulary(bytes);
    for (uint32_t i = 0; i < r->n; i++)
        snprintf(r->texts[i], MOST_BYTES, "<%u>", i);
    while (r->n < VOCABULARY) {
        lsi_merge *const m = &r->merges[r->n_merges];
        if (best_pair(r, &m->left, &m->right) < 2)
            break;
        m->rank = (uint32_t)r->n_merges++;
        m->whole = number_of(r, m->left, m->right);
        for (int i = 0; i <= WORDS; i++)
            merge(&r->words[i], m);
    }
}

/* ---- tests --------------------------------------------------------------- */

static corpus_file corpus;
static const char *const paths[] = {corpus.path};

static ls_tokenizer_training training(int64_t vocabulary)
{
    ls_tokenizer_training out = LS_TOKENIZER_TRAINING_INIT;
    out.vocabulary = vocabulary;
    return out;
}

static void train(ls_group *group, void *argument)
{
    const ls_tokenizer_training how = training(VOCABULARY);
    ls_tokenizer **out = argument;
    CHECK_OK(ls_tokenizer_new_trained(&out[ls_group_rank(group)], group, paths,
                                      1, &how));
}

static void compare(const ls_tokenizer *t)
{
    assert_int_equal(t->merges.n, expected.n_merges);
    assert_int_equal(ls_tokenizer_vocabulary(t), expected.n);
    for (int i = 0; i < expected.n_merges; i++) {
        const lsi_merge *m = &expected.merges[i];
        const lsi_merge *it = lsi_merges_find(&t->merges, m->left, m->right);
        assert_non_null(it);
        assert_int_equal(it->rank, m->rank);
        assert_int_equal(it->whole, m->whole);
    }
}

static void any_number_of_ranks(void **state)
{
    static const int sizes[] = {1, 2, 3, 5};
    ls_tokenizer *bytes[1] = {NULL};
    const ls_tokenizer_training how = training(257);
    ls_group *alone = NULL;
    (void)state;
    assert_ok(ls_group_open_threads(&alone, 1));
    assert_ok(ls_tokenizer_new_trained(bytes, alone, paths, 1, &how));
    ls_group_close(&alone);
    learn(&expected, &corpus, bytes[0]);
    assert_int_equal(expected.n, VOCABULARY);
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        ls_tokenizer *each[5] = {NULL};
        run_threads(sizes[i], train, each);
        const uint64_t digest = ls_tokenizer_digest(each[0]);
        for (int r = 0; r < sizes[i]; r++) {
            compare(each[r]);
            assert_true(ls_tokenizer_digest(each[r]) == digest);
            ls_tokenizer_close(&each[r]);
        }
    }
    ls_tokenizer_close(bytes);
}

/* Equal counts: the smaller left token wins, then the smaller right one. */
static void ties(void **state)
{
    char path[] = "/tmp/lockstep-ties-XXXXXX";
    const char *const files[] = {path};
    const ls_tokenizer_training how = training(260);
    ls_tokenizer *t = NULL;
    ls_group *group = NULL;
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    static const char text[] = "bd\nbd\nac\nac\nbc\nbc\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    assert_ok(ls_group_open_threads(&group, 1));
    assert_ok(ls_tokenizer_new_trained(&t, group, files, 1, &how));
    assert_int_equal(ls_tokenizer_id(t, "ac"), 257);
    assert_int_equal(ls_tokenizer_id(t, "bc"), 258);
    assert_int_equal(ls_tokenizer_id(t, "bd"), 259);
    ls_tokenizer_close(&t);
    ls_group_close(&group);
    unlink(path);
}

static void refuses(void **state)
{
    static const char *const twice[] = {"<s>", "<s>"};
    static const char *const missing[] = {"/nowhere/at/all"};
    ls_tokenizer_training how = training(256);
    ls_tokenizer *t = NULL;
    ls_group *group = NULL;
    (void)state;
    assert_ok(ls_group_open_threads(&group, 1));
    assert_error(ls_tokenizer_new_trained(&t, group, paths, 1, &how),
                 LS_ERR_ARGUMENT, "at least 257");
    how.vocabulary = 300;
    assert_error(ls_tokenizer_new_trained(&t, group, missing, 1, &how),
                 LS_ERR_IO, "/nowhere/at/all");
    how.special = twice;
    how.n_special = 2;
    assert_error(ls_tokenizer_new_trained(&t, group, paths, 1, &how),
                 LS_ERR_ARGUMENT, "'<s>' is empty or listed twice");
    assert_null(t);
    ls_group_close(&group);
}

static int make(void **state)
{
    (void)state;
    corpus_make(&corpus, 3);
    return 0;
}

static int clear(void **state)
{
    (void)state;
    return unlink(corpus.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks),
        cmocka_unit_test(ties),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, make, clear);
}

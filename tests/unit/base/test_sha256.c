/* SHA-256, by the examples of FIPS 180-4. */
#include "testing.h"

#include <stdlib.h>

#include "base/sha256.h"

static void check(const char *bytes, size_t n, const char *wanted)
{
    unsigned char digest[LSI_SHA256_BYTES];
    char text[LSI_SHA256_TEXT];
    lsi_sha256(&(lsi_sha256_piece){bytes, n}, 1, digest);
    lsi_sha256_text(digest, sizeof(digest), text);
    assert_string_equal(text, wanted);
}

static void published(void **state)
{
    enum { MILLION = 1000000 };
    char *const many = malloc(MILLION);
    (void)state;
    if (!lsi_sha256_is_there())
        skip();
    memset(many, 'a', MILLION);
    check("", 0,
          "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check("abc", 3,
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check(many, MILLION,
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(many);
}

/* Pieces are digested as if they were one. */
static void pieces(void **state)
{
    unsigned char one[LSI_SHA256_BYTES], three[LSI_SHA256_BYTES];
    const lsi_sha256_piece all[] = {{"ab", 2}, {"", 0}, {"c", 1}};
    (void)state;
    lsi_sha256(&(lsi_sha256_piece){"abc", 3}, 1, one);
    lsi_sha256(all, 3, three);
    assert_memory_equal(one, three, sizeof(one));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(published),
                                       cmocka_unit_test(pieces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

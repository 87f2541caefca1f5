/*
 * Where the secret comes from, and HMAC against the vectors of RFC 4231.
 */
#include "testing.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "comm/rendezvous/hmac.h"
#include "comm/rendezvous/secret.h"
#include "lockstep/lockstep.h"

static const char good[] = "0123456789abcdef";

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void test_variables(void **state)
{
    (void)state;
    char *secret = NULL;
    unsetenv("LOCKSTEP_SECRET");
    unsetenv("LOCKSTEP_SECRET_FILE");
    assert_ok(lsi_secret_read(&secret));
    assert_null(secret);
    if (!lsi_hmac_is_there())
        skip();
    setenv("LOCKSTEP_SECRET", "short", 1);
    assert_error(lsi_secret_read(&secret), LS_ERR_ARGUMENT,
                 "has 5 characters; it must have 16 to 1024");
    setenv("LOCKSTEP_SECRET", good, 1);
    assert_ok(lsi_secret_read(&secret));
    assert_string_equal(secret, good);
    lsi_free(secret);
    unsetenv("LOCKSTEP_SECRET");
}

static void test_files(void **state)
{
    (void)state;
    char path[] = "/tmp/lockstep-secret-XXXXXX";
    char *secret = NULL;
    if (!lsi_hmac_is_there())
        skip();
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    setenv("LOCKSTEP_SECRET_FILE", path, 1);
    write_file(path, "0123456789abcdef\r\n\n", 0600);
    assert_ok(lsi_secret_read(&secret));
    assert_string_equal(secret, good);
    lsi_free(secret);
    write_file(path, good, 0640);
    assert_error(lsi_secret_read(&secret), LS_ERR_ARGUMENT, "chmod 600");
    write_file(path, "\n", 0600);
    assert_error(lsi_secret_read(&secret), LS_ERR_ARGUMENT,
                 "LOCKSTEP_SECRET_FILE has 0 characters");
    unlink(path);
    assert_error(lsi_secret_read(&secret), LS_ERR_ARGUMENT, "cannot read");
    setenv("LOCKSTEP_SECRET_FILE", "/tmp", 1);
    assert_error(lsi_secret_read(&secret), LS_ERR_ARGUMENT, "regular file");
    unsetenv("LOCKSTEP_SECRET_FILE");
}

/* RFC 4231, cases 2 and 6: a short key, and one longer than a block. */
static void test_hmac(void **state)
{
    (void)state;
    static const unsigned char second[LSI_HMAC_BYTES] = {
        0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24,
        0x26, 0x08, 0x95, 0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27,
        0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
    static const unsigned char sixth[LSI_HMAC_BYTES] = {
        0x60, 0xe4, 0x31, 0x59, 0x1e, 0xe0, 0xb6, 0x7f, 0x0d, 0x8a, 0x26,
        0xaa, 0xcb, 0xf5, 0xb7, 0x7f, 0x8e, 0x0b, 0xc6, 0x21, 0x37, 0x28,
        0xc5, 0x14, 0x05, 0x46, 0x04, 0x0f, 0x0e, 0xe3, 0x7f, 0x54};
    const lsi_hmac_piece pieces[] = {{"what do ya want ", 16},
                                     {"for nothing?", 12}};
    const lsi_hmac_piece other = {
        "Test Using Larger Than Block-Size Key - Hash Key First", 54};
    unsigned char out[LSI_HMAC_BYTES];
    char key[132];
    if (!lsi_hmac_is_there())
        skip();
    lsi_hmac("Jefe", pieces, 2, out);
    assert_memory_equal(out, second, sizeof(second));
    memset(key, 0xaa, 131);
    key[131] = '\0';
    lsi_hmac(key, &other, 1, out);
    assert_memory_equal(out, sixth, sizeof(sixth));
    assert_true(lsi_hmac_equal(out, sixth));
    out[31] ^= 1;
    assert_false(lsi_hmac_equal(out, sixth));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_hmac),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Frames, endpoints: what may come from outside.
 */
#include "testing.h"

#include <stdlib.h>

#include "comm/rendezvous/endpoint.h"
#include "comm/rendezvous/frame.h"
#include "lockstep/lockstep.h"

static void test_round_trip(void **state)
{
    (void)state;
    unsigned char buffer[64];
    lsi_frame frame;
    size_t used, wanted;
    const size_t n = lsi_frame_header(LSI_FRAME_SET, "a/b", 5, buffer);
    assert_int_equal(n, LSI_FRAME_HEADER_BYTES + 3 + 5);
    memcpy(buffer + LSI_FRAME_HEADER_BYTES, "a/bhello", 8);
    for (size_t have = 0; have < n; have++) {
        assert_ok(lsi_frame_read(buffer, have, 5, &frame, &used, &wanted));
        assert_int_equal(used, 0);
        assert_true(wanted > have && wanted <= n);
    }
    assert_ok(lsi_frame_read(buffer, n + 9, 5, &frame, &used, &wanted));
    assert_int_equal(used, n);
    assert_int_equal(frame.kind, LSI_FRAME_SET);
    assert_string_equal(frame.key, "a/b");
    assert_int_equal(frame.bytes, 5);
    assert_memory_equal(frame.data, "hello", 5);
}

static void test_refused_frames(void **state)
{
    (void)state;
    unsigned char good[64], bad[64];
    lsi_frame frame;
    size_t used, wanted;
    const size_t n = lsi_frame_header(LSI_FRAME_SET, "key", 4, good);
    memcpy(good + LSI_FRAME_HEADER_BYTES, "keydata", 7);
    const struct {
        size_t at;
        unsigned char value;
        ls_status status;
        const char *text;
    } rows[] = {
        {0, 'G', LS_ERR_FORMAT, "does not follow Lockstep's protocol"},
        {3, '2', LS_ERR_MISMATCH, "version 2"},
        {4, 0, LS_ERR_FORMAT, "unknown kind 0"},
        {4, LSI_FRAME_KINDS, LS_ERR_FORMAT, "unknown kind"},
        {4, LSI_FRAME_HELLO, LS_ERR_FORMAT, "a key of 3 bytes"},
        {5, 1, LS_ERR_FORMAT, "unknown kind"},
        {6, 0, LS_ERR_FORMAT, "a key of 0 bytes"},
        {7, 1, LS_ERR_FORMAT, "a key of 259 bytes"},
        {8, 5, LS_ERR_FORMAT, "5 bytes of data"},
        {11, 0xff, LS_ERR_FORMAT, "bytes of data"},
        {LSI_FRAME_HEADER_BYTES, ' ', LS_ERR_FORMAT, "printable"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        memcpy(bad, good, sizeof(bad));
        bad[rows[i].at] = rows[i].value;
        assert_error(lsi_frame_read(bad, n, 4, &frame, &used, &wanted),
                     rows[i].status, rows[i].text);
    }
    /* Whoever speaks something else is told at its first bytes. */
    assert_error(lsi_frame_read((const unsigned char *)"GE", 2, 4, &frame,
                                &used, &wanted),
                 LS_ERR_FORMAT, "protocol");
}

static void test_endpoints(void **state)
{
    (void)state;
    lsi_endpoint e;
    char text[LSI_ENDPOINT_BYTES];
    static const char *const good[][2] = {
        {"h0:29400", "h0:29400"},
        {"10.0.0.1:1", "10.0.0.1:1"},
        {"[fd00::1]:65535", "[fd00::1]:65535"},
        {"h0", "h0:0"},
        {"[::1]", "[::1]:0"},
    };
    static const char *const bad[] = {
        "",          ":29400", "h0:",       "h0:0",  "h0:65536",
        "h0:29400x", "h0:-1",  "h0: 29400", "a b:1", "fd00::1:5",
        "[fd00::1",  "[]:1",   "[::1]29400"};
    for (size_t i = 0; i < TEST_COUNT(good); i++) {
        assert_ok(lsi_endpoint_parse(good[i][0], &e));
        lsi_endpoint_print(&e, text);
        assert_string_equal(text, good[i][1]);
    }
    for (size_t i = 0; i < TEST_COUNT(bad); i++)
        assert_error(lsi_endpoint_parse(bad[i], &e), LS_ERR_ARGUMENT,
                     "is not an endpoint");
    assert_ok(lsi_endpoint_parse("127.0.0.1:1", &e));
    assert_true(lsi_endpoint_is_local(&e));
    assert_ok(lsi_endpoint_parse("127.example.org:1", &e));
    assert_false(lsi_endpoint_is_local(&e));
}

static void test_unknown_host(void **state)
{
    (void)state;
    lsi_endpoint e;
    struct addrinfo *all;
    assert_ok(lsi_endpoint_parse("no-such-host.invalid:1", &e));
    assert_error(lsi_endpoint_resolve(&e, &all), LS_ERR_ARGUMENT,
                 "cannot find the host 'no-such-host.invalid'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_refused_frames),
        cmocka_unit_test(test_endpoints),
        cmocka_unit_test(test_unknown_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

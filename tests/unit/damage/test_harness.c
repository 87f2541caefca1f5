/*
 * The harness itself: what a reader may not do is found, and what it may do is
 * not. The format here is a length, as many bytes, and their sum.
 */
#include "damage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"

enum { BYTES = 6, SUM = BYTES - 1 };

static const uint8_t file[BYTES] = {4, 10, 20, 30, 40, 100};

/* The faults of the reader under test. */
static bool more, no_sum, no_length, silent, keeps, grabs, stays_open, loses;

/* Blocks that it does not give back. */
static void *kept[16 * BYTES];
static size_t n_kept;

static ls_status check(const uint8_t *data, size_t bytes)
{
    uint8_t sum = 0;
    if (bytes > BYTES && more)
        bytes = BYTES;
    if (bytes < 1 || (data[0] != bytes - 2 && !no_length))
        return silent ? LS_ERR_FORMAT
                      : lsi_fail(LS_ERR_FORMAT, "%zu bytes", bytes);
    for (size_t i = 1; i + 1 < bytes; i++)
        sum = (uint8_t)(sum + data[i]);
    return sum == data[bytes - 1] || no_sum
               ? LS_OK
               : lsi_fail(LS_ERR_FORMAT, "a wrong sum");
}

static ls_status misbehave(void)
{
    void *block = NULL;
    if (keeps) {
        assert_true(n_kept < TEST_COUNT(kept));
        LS_TRY(lsi_alloc(&kept[n_kept++], 1, LS_MEMORY_DATA, "kept"));
    }
    if (grabs) {
        LS_TRY(lsi_alloc(&block, 2 << 20, LS_MEMORY_DATA, "a block"));
        lsi_free(block);
    }
    if (stays_open)
        (void)!open("/dev/null", O_RDONLY | O_CLOEXEC);
    return LS_OK;
}

static ls_status read_file(const char *path, damage_seen *seen)
{
    size_t bytes;
    uint8_t *data = damage_read(path, &bytes);
    ls_status status = check(data, bytes);
    if (status == LS_OK)
        status = misbehave();
    if (status == LS_OK) {
        snprintf(seen->shape, sizeof seen->shape, "%d bytes",
                 loses && data[1] != file[1] ? data[0] - 1 : data[0]);
        seen->values = damage_digest(LSI_HASH_START, data, bytes);
    }
    free(data);
    return status;
}

static size_t broken(damage_rule flips, damage_rule cuts)
{
    const damage_case c = {.format = "test",
                           .path = damage_path("file"),
                           .data = file,
                           .bytes = BYTES,
                           .read = read_file,
                           .flips = {.usual = flips},
                           .cuts = {.usual = cuts},
                           .memory = 1 << 20};
    const damage_count n = damage_walk(&c);
    assert_int_equal(n.refused + n.accepted, 9 * BYTES + 2);
    assert_int_equal(n.broken > 0, n.first[0] != '\0');
    return n.broken;
}

static void sound_readers_pass(void **state)
{
    (void)state;
    no_sum = no_length = silent = keeps = grabs = stays_open = loses = false;
    assert_int_equal(broken(DAMAGE_REFUSED, DAMAGE_REFUSED), 0);
}

static void what_is_accepted_is_found(void **state)
{
    (void)state;
    no_sum = true;
    assert_int_equal(broken(DAMAGE_REFUSED, DAMAGE_REFUSED), 8 * SUM);
    assert_int_equal(broken(DAMAGE_VALUES, DAMAGE_REFUSED), 8 * SUM);
    assert_int_equal(broken(DAMAGE_SHAPE, DAMAGE_REFUSED), 0);
    loses = true;
    assert_int_equal(broken(DAMAGE_SHAPE, DAMAGE_REFUSED), 8);
    assert_int_equal(broken(DAMAGE_ANY, DAMAGE_REFUSED), 0);
    loses = false;
    no_length = true;
    assert_int_equal(broken(DAMAGE_ANY, DAMAGE_REFUSED), BYTES - 1 + 2);
    no_sum = no_length = false;
    more = true;
    assert_int_equal(broken(DAMAGE_REFUSED, DAMAGE_REFUSED), 2);
    more = false;
}

static void ranges_override_the_usual_rule(void **state)
{
    (void)state;
    const damage_range values[] = {{1, SUM, DAMAGE_SHAPE},
                                   {1, BYTES, DAMAGE_ANY}};
    damage_case c = {.format = "test",
                     .path = damage_path("file"),
                     .data = file,
                     .bytes = BYTES,
                     .read = read_file,
                     .flips = {DAMAGE_REFUSED, values, TEST_COUNT(values)}};
    no_sum = true;
    assert_int_equal(damage_walk(&c).broken, 0);
    loses = true;
    assert_int_equal(damage_walk(&c).broken, 8);
    const damage_range untried[] = {{0, SUM, DAMAGE_UNTRIED}};
    c.flips = (damage_rules){DAMAGE_REFUSED, untried, 1};
    const damage_count n = damage_walk(&c);
    assert_int_equal(n.untried, 8 * SUM);
    assert_int_equal(n.refused + n.accepted, 8 + BYTES + 2);
    c.flips = (damage_rules){DAMAGE_REFUSED, values, 2};
    c.flips.n = 0;
    assert_int_equal(damage_walk(&c).broken, 8 * SUM);
    no_sum = loses = false;
}

static void what_a_read_keeps_is_found(void **state)
{
    (void)state;
    no_sum = true;
    keeps = true;
    assert_int_equal(broken(DAMAGE_ANY, DAMAGE_ANY), 8 * SUM);
    keeps = false;
    while (n_kept > 0)
        lsi_free(kept[--n_kept]);
    grabs = true;
    assert_int_equal(broken(DAMAGE_ANY, DAMAGE_ANY), 8 * SUM);
    grabs = false;
    stays_open = true;
    assert_int_equal(broken(DAMAGE_ANY, DAMAGE_ANY), 1);
    stays_open = no_sum = false;
    for (int fd = 3; fd < 256; fd++)
        close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_readers_pass),
        cmocka_unit_test(what_is_accepted_is_found),
        cmocka_unit_test(ranges_override_the_usual_rule),
        cmocka_unit_test(what_a_read_keeps_is_found),
    };
    return cmocka_run_group_tests(tests, damage_begin, damage_end);
}

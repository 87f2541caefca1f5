/*
 * Random numbers: the generator against published vectors, the views of a
 * stream against their definition and against the distributions they promise.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

/*
 * The key whose Philox key is `philox_key`: stream 0 adds nothing to the seed.
 */
static lsi_rng_key key_for(uint64_t philox_key)
{
    return (lsi_rng_key){.seed = philox_key, .stream = 0};
}

/* The vectors for philox4x32-10 that Random123 is released with. */
static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint64_t key, block, sub;
        uint32_t want[4];
    } cases[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX,
         UINT64_MAX,
         UINT64_MAX,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         0x85a308d3243f6a88,
         0x0370734413198a2e,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t got[4];
        lsi_rng_block(key_for(cases[i].key), cases[i].block, cases[i].sub, got);
        assert_memory_equal(got, cases[i].want, sizeof(got));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * A small language. A sentence has a subject, a verb and an object or a place:
 *
 *     the old fox sees the bright river. two foxes see the river.
 *
 * To be learned, from easy to hard:
 * - letters and words
 * - the order of the parts
 * - that one fox sees and two foxes see
 * - where each animal lives ("the otter sleeps in the river")
 * - that numbers are counted up ("one, two, three.")
 *
 * Everything is a pure function of the seed.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "input/data/tokens.h"

#define PICK(list, r) (list)[(r) % (sizeof(list) / sizeof((list)[0]))]

static const struct {
    const char *one, *many, *home;
} animals[] = {
    {"fox", "foxes", "forest"},   {"otter", "otters", "river"},
    {"heron", "herons", "reeds"}, {"mouse", "mice", "field"},
    {"goat", "goats", "hills"},   {"owl", "owls", "barn"},
    {"crab", "crabs", "bay"},     {"hare", "hares", "meadow"},
};
static const struct {
    const char *one, *many;
} verbs[] = {{"sees", "see"},   {"follows", "follow"}, {"hears", "hear"},
             {"finds", "find"}, {"likes", "like"},     {"leaves", "leave"}};
static const char *const adjectives[] = {"old",   "small", "bright",
                                         "quiet", "grey",  "quick"};
static const char *const numbers[] = {"one", "two",   "three", "four", "five",
                                      "six", "seven", "eight", "nine", "ten"};

static const uint64_t text_stream = 0x7468652066757800;

enum { LONGEST = 128 };

/* Four random numbers make a sentence. */
static int animal_at_home(char *out, const uint32_t *r)
{
    const char *adjective = PICK(adjectives, r[1]);
    const size_t who = r[0] % (sizeof(animals) / sizeof(animals[0]));
    return snprintf(out, LONGEST, "the %s %s sleeps in the %s. ", adjective,
                    animals[who].one, animals[who].home);
}

static int one_meets_one(char *out, const uint32_t *r)
{
    const size_t n = sizeof(animals) / sizeof(animals[0]);
    return snprintf(out, LONGEST, "the %s %s %s the %s. ",
                    PICK(adjectives, r[1]), animals[r[0] % n].one,
                    PICK(verbs, r[2]).one, animals[(r[0] / n) % n].one);
}

static int some_meet_one(char *out, const uint32_t *r)
{
    const size_t n = sizeof(animals) / sizeof(animals[0]);
    return snprintf(out, LONGEST, "%s %s %s the %s %s. ", numbers[1 + r[1] % 9],
                    animals[r[0] % n].many, PICK(verbs, r[2]).many,
                    PICK(adjectives, r[1] / 9), animals[(r[0] / n) % n].one);
}

static int counting(char *out, const uint32_t *r)
{
    const uint32_t first = r[0] % 7, last = first + 2 + r[1] % 2;
    int used = 0;
    for (uint32_t i = first; i <= last && i < 10; i++)
        used += snprintf(out + used, LONGEST - (size_t)used, "%s%s",
                         i == first ? "" : ", ", numbers[i]);
    return used + snprintf(out + used, LONGEST - (size_t)used, ".\n");
}

static int sentence(char *out, const uint32_t *r)
{
    switch (r[3] >> 30) {
    case 0:
        return animal_at_home(out, r);
    case 1:
        return one_meets_one(out, r);
    case 2:
        return some_meet_one(out, r);
    default:
        return counting(out, r);
    }
}

static void write_text(uint8_t *data, size_t bytes, uint64_t seed)
{
    const lsi_rng_key key = {.seed = seed, .stream = text_stream};
    char text[LONGEST];
    size_t used = 0;
    for (uint64_t i = 0; used < bytes; i++) {
        uint32_t r[4];
        lsi_rng_block(key, i, 0, r);
        const size_t length = (size_t)sentence(text, r);
        const size_t left = bytes - used;
        memcpy(data + used, text, length < left ? length : left);
        used += length;
    }
}

ls_status ls_tokens_new_builtin(ls_tokens **out, int64_t count, uint64_t seed)
{
    LS_NEED(out);
    if (count < 1)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "ls_tokens_new_builtin: count is %lld; it must be at least 1",
            (long long)count);
    LS_TRY(lsi_tokens_in_memory(out, "the built-in text", count, 1));
    write_text((*out)->files[0].records.data, (size_t)count, seed);
    return LS_OK;
}

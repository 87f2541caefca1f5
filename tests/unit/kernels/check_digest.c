/* Digests of memory. */
#include "harness.h"

#include <string.h>

#include "testing.h"

/* The definition, with the constants written out again. */
static uint64_t mixed(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9U;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

static uint64_t expected(const unsigned char *data, size_t n, uint64_t first)
{
    uint64_t sum = 0, key = (first + 1) * 0x9e3779b97f4a7c15U;
    for (size_t i = 0; i < n; i++, key += 0x9e3779b97f4a7c15U) {
        uint64_t word;
        memcpy(&word, data + i * sizeof(word), sizeof(word));
        sum += mixed(word + key);
    }
    return sum;
}

static uint64_t digest(const lsi_kernels *k, const void *data, size_t n,
                       uint64_t first)
{
    uint64_t out;
    k->digest(&out, data, n, first);
    return out;
}

/* Each bit that flips changes the digest, and so do words that change places.
 */
static void check_flips(const lsi_kernels *k, unsigned char *data, size_t n)
{
    const uint64_t before = digest(k, data, n, 0);
    for (size_t bit = 0; bit < n * 64; bit++) {
        data[bit / 8] ^= (unsigned char)(1U << bit % 8);
        assert_true(digest(k, data, n, 0) != before);
        data[bit / 8] ^= (unsigned char)(1U << bit % 8);
    }
    for (size_t a = 0; a + 1 < n; a++) {
        uint64_t words[2];
        memcpy(words, data + a * 8, sizeof(words));
        if (words[0] == words[1])
            continue;
        memcpy(data + a * 8, &words[1], 8);
        memcpy(data + a * 8 + 8, &words[0], 8);
        assert_true(digest(k, data, n, 0) != before);
        memcpy(data + a * 8, words, sizeof(words));
    }
}

void check_digest(const lsi_kernels *k)
{
    random_seed(20);
    for (size_t l = 0; l < test_length_count; l++) {
        const size_t n = test_lengths[l];
        unsigned char *const data = guarded(n * 8, 4);
        for (size_t i = 0; i < n * 8; i++)
            data[i] = (unsigned char)random_u64();
        const uint64_t first = random_u64() >> 20;
        const uint64_t want = expected(data, n, first);
        assert_true(digest(k, data, n, first) == want);
        /* Parts add up. */
        const size_t part = n / 3;
        assert_true(digest(k, data, part, first) +
                        digest(k, data + part * 8, n - part, first + part) ==
                    want);
        if (n > 0 && n < 70)
            check_flips(k, data, n);
        release_all();
    }
}

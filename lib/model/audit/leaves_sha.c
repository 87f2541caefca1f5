/* SHA-256 (FIPS 180-4) by the SHA instructions of x86. */
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "model/audit/leaves.h"

#define UNROLL _Pragma("GCC unroll 16")

enum { WORDS = 8, ROUNDS = 64, EACH = 4 /* rounds of a vector */ };

static const uint32_t start[WORDS] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                      0xa54ff53a, 0x510e527f, 0x9b05688c,
                                      0x1f83d9ab, 0x5be0cd19};

static const uint32_t constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* The words a to h of a digest, in the order of the instructions. */
typedef struct lane {
    __m128i abef, cdgh;
} lane;

/* Between the order of memory, or of big-endian words, and the other one. */
static inline __m128i swap_bytes(__m128i x)
{
    return _mm_shuffle_epi8(
        x, _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
}

static lane lane_of(void)
{
    return (lane){_mm_set_epi32((int)start[0], (int)start[1], (int)start[4],
                                (int)start[5]),
                  _mm_set_epi32((int)start[2], (int)start[3], (int)start[6],
                                (int)start[7])};
}

static void write_digest(lane s, unsigned char *out)
{
    const __m128i abcd = _mm_unpackhi_epi64(s.cdgh, s.abef);
    const __m128i efgh = _mm_unpacklo_epi64(s.cdgh, s.abef);
    _mm_storeu_si128((__m128i *)out, swap_bytes(_mm_shuffle_epi32(abcd, 0x1b)));
    _mm_storeu_si128((__m128i *)(out + sizeof(abcd)),
                     swap_bytes(_mm_shuffle_epi32(efgh, 0x1b)));
}

/* The next four words of the message: in the place of the oldest of 16. */
static inline __m128i next_words(const __m128i m[4], int i)
{
    const __m128i last = m[(i + 3) & 3];
    const __m128i sum =
        _mm_add_epi32(_mm_sha256msg1_epu32(m[i & 3], m[(i + 1) & 3]),
                      _mm_alignr_epi8(last, m[(i + 2) & 3], 4));
    return _mm_sha256msg2_epu32(sum, last);
}

/* A block of each lane. */
static inline void add_block(lane s[LSI_LANES],
                             const unsigned char *const block[LSI_LANES])
{
    lane before[LSI_LANES];
    __m128i m[LSI_LANES][4];
    UNROLL for (int l = 0; l < LSI_LANES; l++)
    {
        before[l] = s[l];
        UNROLL for (int i = 0; i < 4; i++) m[l][i] =
            swap_bytes(_mm_loadu_si128((const __m128i *)block[l] + i));
    }
    UNROLL for (int i = 0; i < ROUNDS / EACH; i++)
    {
        const __m128i k =
            _mm_loadu_si128((const __m128i *)(constants + EACH * (size_t)i));
        UNROLL for (int l = 0; l < LSI_LANES; l++)
        {
            if (i >= 4)
                m[l][i & 3] = next_words(m[l], i);
            const __m128i w = _mm_add_epi32(m[l][i & 3], k);
            s[l].cdgh = _mm_sha256rnds2_epu32(s[l].cdgh, s[l].abef, w);
            s[l].abef = _mm_sha256rnds2_epu32(s[l].abef, s[l].cdgh,
                                              _mm_shuffle_epi32(w, 0x0e));
        }
    }
    UNROLL for (int l = 0; l < LSI_LANES; l++)
    {
        s[l].abef = _mm_add_epi32(s[l].abef, before[l].abef);
        s[l].cdgh = _mm_add_epi32(s[l].cdgh, before[l].cdgh);
    }
}

void lsi_sha256_lanes(const lsi_lanes *lanes, size_t bytes)
{
    unsigned char last[LSI_LANE_BLOCK] = {0x80}; /* padding, number of bits */
    const uint64_t bits = __builtin_bswap64((uint64_t)bytes * 8);
    const unsigned char *block[LSI_LANES];
    lane s[LSI_LANES];
    memcpy(last + sizeof(last) - sizeof(bits), &bits, sizeof(bits));
    for (int l = 0; l < LSI_LANES; l++)
        s[l] = lane_of();
    for (size_t at = 0; at <= bytes; at += LSI_LANE_BLOCK) {
        for (int l = 0; l < LSI_LANES; l++)
            block[l] = at < bytes ? lanes->data[l] + at : last;
        add_block(s, block);
    }
    for (int l = 0; l < LSI_LANES; l++)
        write_digest(s[l], lanes->digest[l]);
}

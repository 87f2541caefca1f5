/*
 * Dropout: LANES blocks of Philox 4x32-10 at a time (the constants are those
 * of Salmon et al., SC 2011), bit for bit those of lsi_rng_u32.
 */
enum { PHILOX_ROUNDS = 10, DROPOUT_CHUNK = 256 };

/* 4 * LANES values: those of the blocks low.. (which must not wrap). */
INLINE void philox(uint32_t *out, uint64_t key, uint64_t sub, uint64_t block)
{
    const vi times_0 = vi_set(0xD2511F53U);
    const vi times_2 = vi_set(0xCD9E8D57U);
    vi c[4] = {vi_add(vi_set((uint32_t)block), vi_order()),
               vi_set((uint32_t)(block >> 32)), vi_set((uint32_t)sub),
               vi_set((uint32_t)(sub >> 32))};
    vi key_0 = vi_set((uint32_t)key);
    vi key_1 = vi_set((uint32_t)(key >> 32));
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        vi high_0, low_0, high_2, low_2;
        vi_multiply(c[0], times_0, &high_0, &low_0);
        vi_multiply(c[2], times_2, &high_2, &low_2);
        c[0] = vi_xor3(high_2, c[1], key_0);
        c[1] = low_2;
        c[2] = vi_xor3(high_0, c[3], key_1);
        c[3] = low_0;
        key_0 = vi_add(key_0, vi_set(0x9E3779B9U));
        key_1 = vi_add(key_1, vi_set(0xBB67AE85U));
    }
    vi_transpose_4(c);
    for (size_t i = 0; i < 4; i++)
        vi_store(out + i * LANES, c[i]);
}

/* At most DROPOUT_CHUNK elements. */
INLINE void dropout_chunk(float *y, const float *x, size_t n, uint64_t key,
                          uint64_t sub, uint64_t first, uint32_t threshold,
                          float factor)
{
    uint32_t bits[DROPOUT_CHUNK + 4 * LANES];
    const size_t skip = first % 4; /* of the first block */
    for (size_t done = 0; done < skip + n; done += 4 * LANES)
        philox(bits + done, key, sub, first / 4 + done / 4);
    const vi limit = vi_set(threshold);
    const vf f = vf_set(factor);
    FOR_LANES(n, {
        const vm keep = vi_ge_unsigned(vi_load(bits + skip + i, m), limit);
        vf_store(y + i, vf_keep(keep, vf_mul(vf_load(x + i, m), f)), m);
    });
}

void LSI_SIMD(dropout)(float *y, const float *x, size_t n, lsi_rng_key key,
                       uint64_t sub, uint64_t first, uint32_t threshold,
                       float factor)
{
    const uint64_t philox_key = lsi_rng_philox_key(key);
    for (size_t done = 0; done < n; done += DROPOUT_CHUNK) {
        const size_t rest = n - done;
        const size_t chunk = rest < DROPOUT_CHUNK ? rest : DROPOUT_CHUNK;
        const uint64_t at = first + done;
        /* Lanes count blocks in 32 bits; the carry is left to the reference. */
        if ((uint32_t)(at / 4) > UINT32_MAX - DROPOUT_CHUNK)
            lsi_ref_dropout(y + done, x + done, chunk, key, sub, at, threshold,
                            factor);
        else
            dropout_chunk(y + done, x + done, chunk, philox_key, sub, at,
                          threshold, factor);
    }
}

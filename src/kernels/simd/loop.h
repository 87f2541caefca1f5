/*
 * The loop of all vector kernels: the body, a statement in braces, is run with
 * `i` at each vector and `m` lanes in it. It is compiled twice, for full
 * vectors, where m is the constant LANES, and for the rest.
 */
#ifndef LS_KERNELS_SIMD_LOOP_H
#define LS_KERNELS_SIMD_LOOP_H

#define FOR_LANES(n, ...)                                                      \
    do {                                                                       \
        const size_t n_ = (n);                                                 \
        size_t i = 0;                                                          \
        for (; i + LANES <= n_; i += LANES) {                                  \
            const size_t m = LANES;                                            \
            __VA_ARGS__                                                        \
        }                                                                      \
        if (i < n_) {                                                          \
            const size_t m = n_ - i;                                           \
            __VA_ARGS__                                                        \
        }                                                                      \
    } while (0)

#endif

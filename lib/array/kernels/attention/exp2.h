/*
 * 2^x, the exponential of attention, in the words of the vector.h that was
 * included before, or else those of plain C.
 */
#ifndef LS_ARRAY_KERNELS_ATTENTION_EXP2_H
#define LS_ARRAY_KERNELS_ATTENTION_EXP2_H

#ifndef LANES
#    include "array/kernels/ref/vector.h"
#endif

#define LOG2E 1.44269504088896341F

/*
 * x[i] = 2^x[i], of one or two vectors. Relative error at most 2^-22 where the
 * result is a normal number; below 2^-126 it goes to 0, exactly 0 at -127 and
 * less. x at most 127. Cody and Waite's reduction to x = n + f, |f| <= 1/2
 * (adding 1.5 * 2^23 rounds to the integer n). Then a minimax polynomial of 2^f
 * with value 1 at 0, with a relative error of 9.2e-8 on the interval; the
 * remaining error is rounding.
 *
 * The steps of a vector are a chain, each waiting for the one before. Those of
 * two vectors alternate, which hides half of that wait.
 */
INLINE void vf_exp2_each(vf *x, const int count)
{
    static const float terms[] = {0x1.3cea88p-7F, 0x1.c6b752p-5F,
                                  0x1.ebf9bcp-3F, 0x1.62e42ap-1F, 1.0F};
    const vf magic = vf_set(0x1.8p23F);
    vf n[2], y[2];
    for (int i = 0; i < count; i++)
        x[i] = vf_max(vf_set(-127.0F), x[i]);
    for (int i = 0; i < count; i++)
        n[i] = vf_add(x[i], magic);
    for (int i = 0; i < count; i++)
        x[i] = vf_sub(x[i], vf_sub(n[i], magic));
    for (int i = 0; i < count; i++)
        y[i] = vf_set(0x1.5bba14p-10F);
    for (int t = 0; t < 5; t++)
        for (int i = 0; i < count; i++)
            y[i] = vf_fma(y[i], x[i], vf_set(terms[t]));
    for (int i = 0; i < count; i++)
        x[i] = vf_add_exponent(y[i], n[i]);
}

INLINE vf vf_exp2(vf x)
{
    vf_exp2_each(&x, 1);
    return x;
}

#endif

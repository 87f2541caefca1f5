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
 * 2^x. Relative error at most 2^-22 where the result is a normal number; below
 * 2^-126 it goes to 0, exactly 0 at -127 and less. x at most 127. Cody and
 * Waite's reduction to x = n + f, |f| <= 1/2 (adding 1.5 * 2^23 rounds to the
 * integer n). Then a minimax polynomial of 2^f with value 1 at 0, with a
 * relative error of 9.2e-8 on the interval; the remaining error is rounding.
 */
INLINE vf vf_exp2(vf x)
{
    const vf magic = vf_set(0x1.8p23F);
    x = vf_max(vf_set(-127.0F), x);
    const vf n = vf_add(x, magic);
    const vf f = vf_sub(x, vf_sub(n, magic));
    vf y = vf_set(0x1.5bba14p-10F);
    y = vf_fma(y, f, vf_set(0x1.3cea88p-7F));
    y = vf_fma(y, f, vf_set(0x1.c6b752p-5F));
    y = vf_fma(y, f, vf_set(0x1.ebf9bcp-3F));
    y = vf_fma(y, f, vf_set(0x1.62e42ap-1F));
    y = vf_fma(y, f, vf_set(1.0F));
    return vf_add_exponent(y, n);
}

#endif

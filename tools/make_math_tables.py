#!/usr/bin/env python3
"""Makes the numbers of lib/base/math.c and of its test, by mpmath with 200 digits.

usage: make_math_tables.py tables lib/base/math_tables.h
       make_math_tables.py vectors tests/unit/base/math_vectors.h
with Debian's package python3-mpmath, or `pip install mpmath==1.3.0`"""
import random
import sys

from mpmath import (chebyfit, cos, erfc, exp, floor, ldexp, log, log1p, mp, mpf, nint,
                    nstr, pi, power, sin, sqrt, tanh)

mp.prec = 1400  # 2 / pi is needed to 1,300 bits, sines of 1e308 need 1,100 more than 53

HEAD = """/* %s
 * Made by tools/make_math_tables.py. */
#ifndef %s
#define %s

#include <stdint.h>

/* clang-format off */
"""


def double(x):
    return float(x).hex()


def rounded(x, bits):
    """x to a multiple of 2^-bits."""
    return ldexp(nint(ldexp(x, bits)), -bits)


def array(out, name, values, kind="double"):
    out.write(f"static const {kind} {name}[{len(values)}] = {{\n")
    for value in values:
        out.write(f"    {value},\n")
    out.write("};\n")


def fit(out, name, function, low, high, terms):
    """Coefficients from the constant on of a polynomial that is close to the best."""
    with mp.workprec(200):
        found, error = chebyfit(function, [low, high], terms, error=True)
    print(f"{name}: {terms} terms, largest error {nstr(error, 3)}")
    array(out, name, [double(c) for c in reversed(found)])


def exp_tables(out):
    step = log(mpf(2)) / 128
    high = rounded(step, 40)
    out.write("/* ln(2) / 128 = EXP_STEP + EXP_STEP_LOW; EXP_STEP has 33 bits. */\n"
              f"#define EXP_STEPS_PER_1 {double(1 / step)}\n"
              f"#define EXP_STEP {double(high)}\n"
              f"#define EXP_STEP_LOW {double(step - high)}\n"
              "/* 2^(i/128) = a (1 + b) */\n")
    rows = []
    for i in range(128):
        exact = power(2, mpf(i) / 128)
        near = mpf(float(exact))
        rows.append(f"{{{double(near)}, {double(exact / near - 1)}}}")
    array(out, "exp_powers", rows, "struct { double a, b; }")


# Intervals of log: 128 from 0x1.6p-1 on, of 2^-8 below 1 and of 2^-7 above.
LOG_FIRST = 0x3FE6000000000000


def log_tables(out):
    ln2 = log(mpf(2))
    high = rounded(ln2, 42)
    out.write("/* ln 2 = LN2_HIGH + LN2_LOW; LN2_HIGH is a multiple of 2^-42. */\n"
              f"#define LN2_HIGH {double(high)}\n"
              f"#define LN2_LOW {double(ln2 - high)}\n"
              f"#define LOG_FIRST UINT64_C(0x{LOG_FIRST:x}) /* of 0.6875 */\n"
              "/* inverse has 14 bits; -ln(inverse) = high + low, and high is a multiple\n"
              " * of 2^-42. */\n")
    rows = []
    for i in range(128):
        mantissa = 0x160 + 2 * i  # of the interval's begin, in units of 2^-9
        if mantissa < 0x200:
            begin, end = mpf(mantissa) / 512, mpf(mantissa + 2) / 512
        else:
            begin = 1 + mpf(mantissa - 0x200) / 256
            end = begin + mpf(2) / 256
        inverse = rounded(2 / (begin + end), 13)
        if begin == 1 or end == 1:
            inverse = mpf(1)
        value = -log(inverse)
        near = rounded(value, 42)
        rows.append(f"{{{double(inverse)}, {double(near)}, {double(value - near)}}}")
    array(out, "log_parts", rows, "struct { double inverse, high, low; }")


def sine_tables(out):
    top = (pi / 4) ** 2 * (1 + mpf(2) ** -40)
    small = mpf(10) ** -60

    def sine(z):
        y = sqrt(z + small)
        return (sin(y) / y - 1) / (z + small)

    def cosine(z):
        z = z + mpf(10) ** -30
        return (cos(sqrt(z)) - 1 + z / 2) / z ** 2

    out.write("/* sin y = y + y z (p[0] + p[1] z + ...), z = y^2, |y| <= pi / 4 */\n")
    fit(out, "sine", sine, 0, top, 7)
    out.write("/* cos y = 1 - z / 2 + z^2 (p[0] + p[1] z + ...) */\n")
    fit(out, "cosine", cosine, 0, top, 6)
    parts = [rounded(pi / 2, 32)]
    parts.append(rounded(pi / 2 - parts[0], 65))
    parts.append(pi / 2 - parts[0] - parts[1])
    out.write("/* pi / 2 in parts, the first two of at most 33 bits */\n"
              f"#define TWO_OVER_PI {double(2 / pi)}\n")
    for i, part in enumerate(parts):
        out.write(f"#define HALF_PI_{i + 1} {double(part)}\n")
    words = 21
    bits = int(floor(ldexp(2 / pi, 64 * (words - 1))))
    out.write("/* The binary digits of 2 / pi, the first 64 of them 0, before the point. */\n")
    array(out, "two_over_pi",
          [f"UINT64_C(0x{bits >> 64 * (words - 1 - i) & (1 << 64) - 1:016x})"
           for i in range(words)], "uint64_t")
    out.write("/* pi / 2 times 2^63 */\n"
              f"#define HALF_PI_BITS UINT64_C(0x{int(floor(ldexp(pi / 2, 63))):016x})\n")


NORMAL_SLOPE = mpf("0.203125")


def normal_tables(out):
    def tail(s):
        a = (1 / s - 1) / NORMAL_SLOPE
        return erfc(a / sqrt(mpf(2))) / 2 * exp(a * a / 2) / s

    out.write("/* 1 - (share of the normal distribution below a) =\n"
              " * e^(-a^2 / 2) s (p[0] + p[1] s + ...), s = 1 / (1 + NORMAL_SLOPE a) */\n"
              f"#define NORMAL_SLOPE {double(NORMAL_SLOPE)}\n")
    fit(out, "normal_tail", tail, 1 / (1 + 15 * NORMAL_SLOPE), mpf(1), 14)


def tables(path):
    with open(path, "w") as out:
        guard = "LS_BASE_MATH_TABLES_H"
        out.write(HEAD % ("Tables and polynomials of math.c.", guard, guard))
        exp_tables(out)
        log_tables(out)
        sine_tables(out)
        normal_tables(out)
        out.write("/* clang-format on */\n\n#endif\n")


# ---- vectors of the test ----------------------------------------------------


def near(draw, value, spread):
    return value + draw.uniform(-spread, spread)


def points(draw):
    """(function, arguments) of the test, as doubles."""
    for x in [near(draw, 0, 10.0 ** -e) for e in range(0, 20)]:
        yield "exp", exp, (x,)
        yield "tanh", tanh, (x,)
        yield "sin", sin, (x,)
        yield "cos", cos, (x,)
        yield "log", log, (1 + x,)
        yield "log1p", log1p, (x,)
    for _ in range(30):
        x = near(draw, 0, 700)
        yield "exp", exp, (x,)
        yield "exp", exp, (near(draw, -727, 18),)
        yield "tanh", tanh, (near(draw, 0, 20),)
        yield "log", log, (float(ldexp(mpf(draw.uniform(0.5, 1)), draw.randint(-1060, 1020))),)
        yield "log1p", log1p, (abs(x) ** 3,)
        yield "sin", sin, (near(draw, 0, 7),)
        yield "cos", cos, (near(draw, 0, 7),)
        yield "sin", sin, (float(draw.randint(0, 1 << 31)),)
        yield "cos", cos, (draw.randint(0, 1 << 31) * draw.uniform(0, 1),)
        big = float(ldexp(mpf(draw.uniform(0.5, 1)), draw.randint(31, 1023)))
        yield "sin", sin, (big,)
        yield "cos", cos, (-big,)
        base = draw.uniform(0, 10)
        yield "pow", power, (base, near(draw, 0, 300 / abs(float(log(base)))))
        yield "pow", power, (draw.choice([0.9, 0.95, 0.99, 0.999]),
                             float(draw.randint(1, 100000)) / 16)
        yield "pow", power, (1 + draw.uniform(-1, 1) * 1e-8, draw.uniform(1, 3e10))
        yield "pow", power, (draw.choice([1e4, 5e5, 1e6]), -draw.randint(0, 127) / 128)
    # The double next to a multiple of pi / 2 among all (Muller, Elementary Functions).
    worst = 6381956970095103 * 2.0 ** 797
    yield "sin", sin, (worst,)
    yield "cos", cos, (worst,)
    for n in (1, 2, 3, 4, 355, 710, 573204, 1 << 40):
        yield "sin", sin, (float(n * pi / 2),)
        yield "cos", cos, (float(n * pi / 2),)


def vectors(path):
    draw = random.Random(36)
    with open(path, "w") as out:
        guard = "LS_TESTS_MATH_VECTORS_H"
        out.write(HEAD % ("Results of math.h, exact to 2^-20 units of the last place: "
                          "value + rest.", guard, guard))
        out.write("#define VECTORS(X) \\\n")
        lines = []
        for name, function, arguments in points(draw):
            exact = function(*map(mpf, arguments))
            value = float(exact)
            if value == 0 or exact == value:
                continue
            a, b = (*arguments, 0.0)[:2]
            lines.append(f"    X({name}, {double(a)}, {double(b)}, {double(value)}, "
                         f"{double(exact - value)})")
        out.write(" \\\n".join(lines) + "\n\n/* clang-format on */\n\n#endif\n")


{"tables": tables, "vectors": vectors}[sys.argv[1]](sys.argv[2])

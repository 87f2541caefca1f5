/*
 * Tables of 128 entries give e^x and ln x (Tang, ACM TOMS 15, 1989, and 16,
 * 1990). Polynomials give sin and cos after the reduction of Payne and Hanek
 * (1983), here in integers. Sums and products keep their rounding errors in a
 * second number (Dekker 1971) where they would show in the result. Fused
 * operations are avoided: they are slow on processors without them.
 */
#include "base/math.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/math_tables.h"

typedef unsigned __int128 uint128;

/* Adding and taking it away rounds to an integer. */
static const double to_integer = 0x1.8p52;

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static double of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* 2^n of a normal result */
static double power_of_2(int64_t n)
{
    return of_bits((uint64_t)(n + 1023) << 52);
}

/* The first 26 bits of x. */
static double first_half(double x)
{
    return of_bits(bits_of(x) & ~UINT64_C(0x7ffffff));
}

/* ---- e^x ----------------------------------------------------------------- */

/* 2^exponent factor (1 + rest), |rest| < 0.003 */
typedef struct power {
    double factor, rest;
    int64_t exponent;
} power;

/* e^(x + low) of |x| <= 1024 and a far smaller low. */
static power power_of(double x, double low)
{
    const double steps = (x * EXP_STEPS_PER_1 + to_integer) - to_integer;
    const int64_t k = (int64_t)steps;
    /* The first difference is exact. */
    const double r = (x - steps * EXP_STEP) - (steps * EXP_STEP_LOW - low);
    const double square = r * r;
    const double p =
        (0.5 + r * (1.0 / 6.0)) + square * ((1.0 / 24.0) + r * (1.0 / 120.0));
    return (power){.factor = exp_powers[k & 127].a,
                   .rest = r + (square * p + exp_powers[k & 127].b),
                   .exponent = (k - (k & 127)) / 128};
}

static double exp_of(double x, double low)
{
    if (!(fabs(x) < 1024.0))
        return x > 0.0 ? INFINITY : x < 0.0 ? 0.0 : x;
    const power p = power_of(x, low);
    const double y = p.factor + p.factor * p.rest;
    if (p.exponent > -1022 && p.exponent < 1023)
        return y * power_of_2(p.exponent);
    /* Only the last product rounds. */
    const int64_t half = p.exponent / 2;
    return y * power_of_2(half) * power_of_2(p.exponent - half);
}

double lsi_exp(double x)
{
    return exp_of(x, 0.0);
}

/* (1 - e^-2x) / (1 + e^-2x), neither of which cancels. */
double lsi_tanh(double x)
{
    const double size = fabs(x);
    if (!(size < 22.0))
        return size > 0.0 ? copysign(1.0, x) : x;
    if (size < 0x1p-28)
        return x;
    const power p = power_of(-2.0 * size, 0.0);
    const double factor = p.factor * power_of_2(p.exponent);
    const double below_1 = (1.0 - factor) - factor * p.rest;
    return copysign(below_1 / (2.0 - below_1), x);
}

/* ---- ln x ---------------------------------------------------------------- */

/* A sum of two numbers, the second of which is below the last bit of the first.
 */
typedef struct sum {
    double high, low;
} sum;

/* a + b, exactly, where a is 0 or |a| >= |b|. */
static sum sum_of(double a, double b)
{
    const double high = a + b;
    return (sum){high, b - (high - a)};
}

/*
 * ln x = first.high + first.low + low + ln(1 + r) - r of a normal x > 0.
 * Let x = 2^e z. The table has an inverse for the interval of z. It gives
 * z inverse = 1 + r, |r| < 2^-7, and `lost` is what r lacks.
 */
typedef struct ln_parts {
    sum first;
    double low, r, lost;
} ln_parts;

static inline ln_parts ln_parts_of(double x)
{
    const uint64_t place = bits_of(x) - LOG_FIRST;
    const int64_t e = (int64_t)place >> 52;
    const size_t i = place >> 45 & 127;
    const double z = of_bits(bits_of(x) - ((uint64_t)e << 52));
    const double n = (double)e;
    const double inverse = log_parts[i].inverse;
    const double z_high = of_bits(bits_of(z) & ~UINT64_C(0xffffffff));
    /* Both products are exact: 21 + 14 bits, and below 2^-19. */
    const sum r = sum_of(z_high * inverse - 1.0, (z - z_high) * inverse);
    return (ln_parts){.first = sum_of(n * LN2_HIGH + log_parts[i].high, r.high),
                      .low = n * LN2_LOW + log_parts[i].low + r.low,
                      .r = r.high,
                      .lost = r.low};
}

/* ln x + a for an a that is far smaller, or 0. */
static inline double ln_of(double x, double a)
{
    const ln_parts l = ln_parts_of(x);
    const double r = l.r, r2 = r * r;
    const double p = (1.0 / 3.0 - r * (1.0 / 4.0)) +
                     r2 * ((1.0 / 5.0 - r * (1.0 / 6.0)) +
                           r2 * (1.0 / 7.0 - r * (1.0 / 8.0)));
    return l.first.high +
           ((l.first.low + (l.low + a)) + (r * r2 * p - 0.5 * r2));
}

/* ln x to 2^-65 of a positive finite x. */
static sum precise_ln(double x)
{
    if (x < 0x1p-1022) {
        const sum scaled = precise_ln(x * 0x1p52);
        const sum high = sum_of(-52.0 * LN2_HIGH, scaled.high);
        return sum_of(high.high, high.low + (scaled.low - 52.0 * LN2_LOW));
    }
    const ln_parts l = ln_parts_of(x);
    const double r = l.r, r2 = r * r;
    const double p =
        ((1.0 / 3.0 - r * (1.0 / 4.0)) + r2 * (1.0 / 5.0 - r * (1.0 / 6.0))) +
        r2 * r2 *
            ((1.0 / 7.0 - r * (1.0 / 8.0)) +
             r2 * (1.0 / 9.0 - r * (1.0 / 10.0)));
    const double half = first_half(r);
    const double square = 0.5 * half * half; /* exact */
    const double rest = 0.5 * (r - half) * (r + half) + r * l.lost;
    const sum s = sum_of(l.first.high, -square);
    return sum_of(s.high,
                  s.low + (l.first.low + (l.low + (r * r2 * p - rest))));
}

static bool is_normal(double x)
{
    const uint64_t first = UINT64_C(1) << 52, end = UINT64_C(0x7ff) << 52;
    return bits_of(x) - first < end - first; /* positive, too */
}

double lsi_ln(double x)
{
    if (is_normal(x))
        return ln_of(x, 0.0);
    if (!(x > 0.0 && x < INFINITY))
        return x == 0.0 ? -INFINITY : x < 0.0 ? NAN : x;
    return precise_ln(x).high;
}

/* ln(1 + x), the sum's rounding corrected to first order. */
double lsi_log1p(double x)
{
    if (!(x > -1.0 && x < INFINITY))
        return x == -1.0 ? -INFINITY : x < -1.0 ? NAN : x;
    if (fabs(x) < 0x1p-54)
        return x;
    const double y = 1.0 + x;
    const double lost = fabs(x) > 1.0 ? 1.0 - (y - x) : x - (y - 1.0);
    return ln_of(y, lost / y);
}

/* ---- x^y ----------------------------------------------------------------- */

static bool is_integer(double y)
{
    return fabs(y) >= 0x1p53 || (double)(int64_t)y == y;
}

static bool is_odd(double y)
{
    return fabs(y) < 0x1p53 && (int64_t)y % 2 != 0 && is_integer(y);
}

/* x^y of a finite x > 0, |y| <= 2^64. */
static double precise_pow(double x, double y)
{
    const sum l = precise_ln(x);
    const double high = y * l.high;
    const double y1 = first_half(y), y2 = y - y1;
    const double l1 = first_half(l.high), l2 = l.high - l1;
    const double lost = ((y1 * l1 - high) + y1 * l2 + y2 * l1) + y2 * l2;
    return exp_of(high, lost + y * l.low);
}

typedef double positive_pow(double x, double y);

/* Calls `pow` for finite x > 0 and |y| <= 2^64 only. */
static inline double pow_of(double x, double y, positive_pow *pow)
{
    const double size = fabs(x);
    const bool usual = size > 0.0 && size < INFINITY && fabs(y) <= 0x1p64;
    if (x > 0.0 && usual)
        return pow(x, y);
    if (y == 0.0 || x == 1.0)
        return 1.0;
    if (isnan(x) || isnan(y))
        return NAN;
    if (x < 0.0 && size < INFINITY && !is_integer(y))
        return NAN;
    const double sign = signbit(x) && is_odd(y) ? -1.0 : 1.0;
    if (usual)
        return sign * pow(size, y);
    return size == 1.0                 ? 1.0
           : (size > 1.0) == (y > 0.0) ? sign * INFINITY
                                       : sign * 0.0;
}

static double single_pow(double x, double y)
{
    return exp_of(y * ln_of(x, 0.0), 0.0);
}

double lsi_pow(double x, double y)
{
    return pow_of(x, y, precise_pow);
}

float lsi_powf(float x, float y)
{
    return (float)pow_of((double)x, (double)y, single_pow);
}

/* ---- sin and cos --------------------------------------------------------- */

/* y + low, |y| <= pi / 4, and the number of quarter turns to add. */
typedef struct angle {
    double y, low;
    unsigned turns;
} angle;

/* 64 digits of 2 / pi from the one of weight 2^-first on. */
static uint64_t digits(int first)
{
    const int at = first + 63; /* the table begins with 64 zeros */
    const uint64_t *word = two_over_pi + at / 64;
    return at % 64 == 0 ? word[0]
                        : word[0] << at % 64 | word[1] >> (64 - at % 64);
}

/*
 * x = m 2^e with an integer m. Digits of 2 / pi that give multiples of 4 in the
 * product are left out. The next 192 suffice: x 2 / pi is never within 2^-62 of
 * an integer.
 */
static angle reduced_in_integers(double x)
{
    const int e = (int)(bits_of(x) >> 52) - 1075;
    const uint64_t m = (bits_of(x) & UINT64_C(0xfffffffffffff)) | UINT64_C(1)
                                                                      << 52;
    const uint128 last = (uint128)m * digits(e + 127);
    const uint128 middle = (uint128)m * digits(e + 63) + (last >> 64);
    const uint64_t first = m * digits(e - 1) + (uint64_t)(middle >> 64);

    uint128 part = (uint128)first << 66 | (uint128)(uint64_t)middle << 2 |
                   (uint64_t)last >> 62;
    unsigned turns = (unsigned)(first >> 62);
    const uint64_t above = first >> 61 & 1; /* half a quarter turn */
    part = (part ^ (0 - (uint128)above)) + above;
    turns += (unsigned)above;
    int zeros = 0;
    if (part >> 64 == 0) {
        part <<= 64;
        zeros = 64;
    }
    const int more = __builtin_clzll((uint64_t)(part >> 64));
    part <<= more;
    zeros += more;
    const uint128 product = (uint128)(uint64_t)(part >> 64) * HALF_PI_BITS;
    const uint64_t high = (uint64_t)(product >> 64) & ~UINT64_C(0x7ff);
    const uint64_t low =
        (uint64_t)(product >> 12) & UINT64_C(0x7fffffffffffffff);
    const double scale = power_of_2(-63 - zeros) * (1.0 - 2.0 * (double)above);
    return (angle){.y = (double)high * scale,
                   .low = (double)low * 0x1p-52 * scale,
                   .turns = turns};
}

/*
 * For x <= 2^20 (Cody and Waite 1980): pi / 2 in three parts, of which n times
 * the first two are exact. The error is below 2^-98, too much only next to 0.
 */
static angle reduced(double x)
{
    if (x <= 0x1.921fb54442d18p-1) /* pi / 4 */
        return (angle){.y = x};
    if (x > 0x1p20)
        return reduced_in_integers(x);
    const double n = (x * TWO_OVER_PI + to_integer) - to_integer;
    const double a = x - n * HALF_PI_1; /* exact */
    const double b = n * HALF_PI_2;
    const double c = a - b, from_b = c - a;
    const double lost = (a - (c - from_b)) - (b + from_b);
    const sum y = sum_of(c, lost - n * HALF_PI_3);
    if (fabs(y.high) < 0x1p-30)
        return reduced_in_integers(x);
    return (angle){.y = y.high, .low = y.low, .turns = (unsigned)n};
}

static double sine_of(angle a)
{
    const double z = a.y * a.y, z2 = z * z;
    const double p = (sine[0] + z * sine[1]) + z2 * (sine[2] + z * sine[3]) +
                     z2 * z2 * (sine[4] + z * sine[5] + z2 * sine[6]);
    return a.y + (a.y * z * p + a.low * (1.0 - 0.5 * z));
}

static double cosine_of(angle a)
{
    const double z = a.y * a.y, z2 = z * z;
    const double p = (cosine[0] + z * cosine[1]) +
                     z2 * (cosine[2] + z * cosine[3]) +
                     z2 * z2 * (cosine[4] + z * cosine[5]);
    const double high = 1.0 - 0.5 * z;
    return high + (((1.0 - high) - 0.5 * z) + (z2 * p - a.y * a.low));
}

void lsi_sincos(double x, double *sine_of_x, double *cosine_of_x)
{
    *sine_of_x = *cosine_of_x = NAN;
    if (!(fabs(x) < INFINITY))
        return;
    const angle a = reduced(fabs(x));
    const double both[2] = {sine_of(a), cosine_of(a)};
    const uint64_t minus = UINT64_C(1) << 63;
    const uint64_t turns = a.turns;
    *sine_of_x = of_bits(bits_of(both[turns % 2]) ^ (turns << 62 & minus) ^
                         (bits_of(x) & minus));
    *cosine_of_x =
        of_bits(bits_of(both[(turns + 1) % 2]) ^ ((turns + 1) << 62 & minus));
}

double lsi_sin(double x)
{
    double sine_of_x, cosine_of_x;
    lsi_sincos(x, &sine_of_x, &cosine_of_x);
    return sine_of_x;
}

double lsi_cos(double x)
{
    double sine_of_x, cosine_of_x;
    lsi_sincos(x, &sine_of_x, &cosine_of_x);
    return cosine_of_x;
}

/* ---- the normal distribution --------------------------------------------- */

double lsi_normal_share(double a, double *density)
{
    const double e = exp_of(-0.5 * a * a, 0.0);
    const double s = 1.0 / (1.0 + NORMAL_SLOPE * fabs(a));
    const double *p = normal_tail;
    const double s2 = s * s, s4 = s2 * s2;
    const double first = (p[0] + s * p[1]) + s2 * (p[2] + s * p[3]);
    const double second = (p[4] + s * p[5]) + s2 * (p[6] + s * p[7]);
    const double third = (p[8] + s * p[9]) + s2 * (p[10] + s * p[11]);
    const double fourth = p[12] + s * p[13];
    const double tail =
        e * s * ((first + s4 * second) + s4 * s4 * (third + s4 * fourth));
    *density = 0.39894228040143267794 * e; /* 1 / sqrt(2 pi) */
    return a < 0.0 ? tail : 1.0 - tail;
}

/*
 * Instruction levels: names, LOCKSTEP_ISA, and detection against the flags
 * that the kernel lists in /proc/cpuinfo.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "testing.h"

static void names(void **state)
{
    (void)state;
    static const char *const want[] = {"ref",    "neon",        "avx2",
                                       "avx512", "avx512_bf16", "amx"};
    for (int i = 0; i < (int)TEST_COUNT(want); i++) {
        lsi_isa parsed = (lsi_isa)-1;
        assert_string_equal(lsi_isa_name((lsi_isa)i), want[i]);
        assert_ok(lsi_isa_parse(want[i], &parsed));
        assert_int_equal(parsed, i);
    }
    assert_string_equal(lsi_isa_name(LSI_ISA_COUNT), "unknown");
    lsi_isa isa = LSI_ISA_AVX2;
    assert_error(lsi_isa_parse("sse", &isa), LS_ERR_ARGUMENT,
                 "'sse'; choose one of: ref neon avx2 avx512 avx512_bf16 amx");
    assert_int_equal(isa, LSI_ISA_AVX2);
}

static void env_lowers_the_level(void **state)
{
    (void)state;
    lsi_isa isa;
    unsetenv("LOCKSTEP_ISA");
    assert_ok(lsi_isa_from_env(&isa));
    assert_int_equal(isa, lsi_cpu_isa());
    setenv("LOCKSTEP_ISA", "", 1);
    assert_ok(lsi_isa_from_env(&isa));
    assert_int_equal(isa, lsi_cpu_isa());
    setenv("LOCKSTEP_ISA", "ref", 1);
    assert_ok(lsi_isa_from_env(&isa));
    assert_int_equal(isa, LSI_ISA_REF);
    setenv("LOCKSTEP_ISA", "fast", 1);
    isa = LSI_ISA_AVX2;
    assert_error(lsi_isa_from_env(&isa), LS_ERR_ARGUMENT, "'fast'");
    assert_int_equal(isa, LSI_ISA_AVX2);
    unsetenv("LOCKSTEP_ISA");
}

/* A machine cannot be made to have less, so each reaches its own case. */
static void env_cannot_raise_the_level(void **state)
{
    (void)state;
    for (int i = 0; i < LSI_ISA_COUNT; i++) {
        lsi_isa isa;
        setenv("LOCKSTEP_ISA", lsi_isa_name((lsi_isa)i), 1);
        if (lsi_isa_available((lsi_isa)i))
            assert_ok(lsi_isa_from_env(&isa));
        else
            assert_error(lsi_isa_from_env(&isa), LS_ERR_UNSUPPORTED,
                         "does not have that instruction level; it has: ref");
    }
    unsetenv("LOCKSTEP_ISA");
}

#if defined(__x86_64__)

/* The line "key : value" of /proc/cpuinfo, or "". */
static void cpuinfo(const char *key, char *out, int out_bytes)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    assert_non_null(file);
    while (fgets(out, out_bytes, file) != NULL) {
        if (strncmp(out, key, strlen(key)) != 0)
            continue;
        fclose(file);
        const char *value = strchr(out, ':') + 2;
        memmove(out, value, strlen(value) + 1);
        out[strcspn(out, "\n")] = '\0';
        return;
    }
    fclose(file);
    out[0] = '\0';
}

static bool has_flags(const char *flags, const char *const *wanted)
{
    for (; *wanted != NULL; wanted++) {
        char word[32];
        snprintf(word, sizeof(word), " %s ", *wanted);
        if (strstr(flags, word) == NULL)
            return false;
    }
    return true;
}

/* The kernel drops flags whose register state it does not save. */
static void detection_agrees_with_the_kernel(void **state)
{
    (void)state;
    static const char *const levels[][7] = {
        [LSI_ISA_AVX2] = {"avx2", "fma", "f16c", NULL},
        [LSI_ISA_AVX512] = {"avx512f", "avx512bw", "avx512dq", "avx512vl",
                            NULL},
        [LSI_ISA_AVX512_BF16] = {"avx512_bf16", NULL},
        [LSI_ISA_AMX] = {"amx_tile", "amx_bf16", NULL},
    };
    char text[8192], flags[sizeof(text) + 2];
    cpuinfo("flags", text, sizeof(text));
    assert_true(strlen(text) > 0);
    snprintf(flags, sizeof(flags), " %s ", text);
    int next = LSI_ISA_AVX2;
    while (next < (int)TEST_COUNT(levels) && has_flags(flags, levels[next]))
        next++;
    const lsi_isa want = next == LSI_ISA_AVX2 ? LSI_ISA_REF : next - 1;
    assert_string_equal(lsi_isa_name(lsi_cpu_isa()), lsi_isa_name(want));
    cpuinfo("model name", text, sizeof(text));
    assert_string_equal(lsi_cpu_model(), text);
}

/* Family 26 is Zen 5. */
static void stores_wait_on_amd_before_zen_5(void **state)
{
    (void)state;
    char vendor[64], family[64];
    cpuinfo("vendor_id", vendor, sizeof(vendor));
    cpuinfo("cpu family", family, sizeof(family));
    const bool amd = strcmp(vendor, "AuthenticAMD") == 0;
    assert_int_equal(lsi_cpu_stores_wait(),
                     amd && strtol(family, NULL, 10) < 26);
}

#else

static void detection_agrees_with_the_kernel(void **state)
{
    (void)state;
#    if defined(__aarch64__)
    assert_int_equal(lsi_cpu_isa(), LSI_ISA_NEON);
#    else
    assert_int_equal(lsi_cpu_isa(), LSI_ISA_REF);
#    endif
    assert_true(strlen(lsi_cpu_model()) > 0);
}

static void stores_wait_on_amd_before_zen_5(void **state)
{
    (void)state;
    assert_false(lsi_cpu_stores_wait());
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(env_lowers_the_level),
        cmocka_unit_test(env_cannot_raise_the_level),
        cmocka_unit_test(detection_agrees_with_the_kernel),
        cmocka_unit_test(stores_wait_on_amd_before_zen_5),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

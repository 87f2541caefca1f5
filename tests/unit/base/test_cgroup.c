/*
 * CPU quotas and memory limits: the parsers on texts, and the walk up the
 * groups on a made-up hierarchy in a temporary folder.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "testing.h"

static void v2_texts(void **state)
{
    (void)state;
    double cpus = -1;
    assert_true(lsi_cgroup_parse_v2("50000 100000\n", &cpus));
    assert_true(cpus == 0.5);
    assert_true(lsi_cgroup_parse_v2("250000 100000", &cpus));
    assert_true(cpus == 2.5);
    static const char *const none[] = {
        "max 100000\n", "max", "",        "\n",  "100000",  "0 100000",
        "1 0",          " ",   "-1 5000", "a b", "100000 ", "nan 1"};
    for (size_t i = 0; i < TEST_COUNT(none); i++) {
        if (lsi_cgroup_parse_v2(none[i], &cpus))
            fail_msg("\"%s\" gave %g", none[i], cpus);
        assert_true(cpus == 2.5);
    }
}

static void v1_texts(void **state)
{
    (void)state;
    double cpus = -1;
    assert_true(lsi_cgroup_parse_v1("300000\n", "100000\n", &cpus));
    assert_true(cpus == 3);
    assert_false(lsi_cgroup_parse_v1("-1\n", "100000\n", &cpus));
    assert_false(lsi_cgroup_parse_v1("", "", &cpus));
    assert_false(lsi_cgroup_parse_v1("1000", "0", &cpus));
    assert_true(cpus == 3);
}

static void check_path(const char *text, const char *controller,
                       const char *want)
{
    char path[64] = "untouched";
    const bool found = lsi_cgroup_path(text, controller, path, sizeof(path));
    assert_int_equal(found, want != NULL);
    assert_string_equal(path, want == NULL ? "untouched" : want);
}

static void paths(void **state)
{
    (void)state;
    const char *hybrid = "4:memory:/m\n3:cpuset:/s\n"
                         "2:cpu,cpuacct:/jobs/7\n0::/user:x\n";
    check_path(hybrid, "cpu", "/jobs/7");
    check_path(hybrid, "cpuacct", "/jobs/7");
    check_path(hybrid, "memory", "/m");
    check_path(hybrid, "pu", NULL);
    check_path(hybrid, "cpu,cpuacct", NULL);
    check_path(hybrid, NULL, "/user:x");
    check_path("0::/", NULL, "/");
    check_path("0::/", "cpu", NULL);
    check_path("", NULL, NULL);
    check_path("no colons\n\n:\n", NULL, NULL);
    check_path("1:cpu:/a", NULL, NULL);
    char small[4];
    assert_false(lsi_cgroup_path("0::/long", NULL, small, sizeof(small)));
    assert_true(lsi_cgroup_path("0::/lo", NULL, small, sizeof(small)));
    assert_string_equal(small, "/lo");
}

typedef struct fixture {
    char root[64], groups[96];
} fixture;

static void write_file(const fixture *f, const char *path, const char *text)
{
    char full[256];
    snprintf(full, sizeof(full), "%s/%s", f->root, path);
    for (char *slash = strchr(full + strlen(f->root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int make_root(void **state)
{
    fixture *f = calloc(1, sizeof(*f));
    snprintf(f->root, sizeof(f->root), "/tmp/lockstep-cgroup-XXXXXX");
    if (mkdtemp(f->root) == NULL)
        return -1;
    snprintf(f->groups, sizeof(f->groups), "%s/self", f->root);
    *state = f;
    return 0;
}

static int remove_one(const char *path, const struct stat *status, int type,
                      struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static int remove_root(void **state)
{
    fixture *f = *state;
    const int failed = nftw(f->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(f);
    return failed;
}

static double limit(const fixture *f)
{
    return lsi_cgroup_cpu_limit(f->groups, f->root);
}

static void no_files_no_limit(void **state)
{
    const fixture *f = *state;
    assert_true(limit(f) == 0);
    write_file(f, "self", "0::/a/b\n");
    assert_true(limit(f) == 0);
}

static void the_tightest_ancestor_counts(void **state)
{
    const fixture *f = *state;
    write_file(f, "self", "0::/a/b\n");
    write_file(f, "a/b/cpu.max", "800000 100000\n");
    assert_true(limit(f) == 8);
    write_file(f, "a/cpu.max", "150000 100000\n");
    assert_true(limit(f) == 1.5);
    write_file(f, "cpu.max", "max 100000\n");
    assert_true(limit(f) == 1.5);
    write_file(f, "cpu.max", "100000 100000\n");
    assert_true(limit(f) == 1);
}

/* In a container the path may name a place that only the host can see. */
static void a_path_outside_leaves_the_root(void **state)
{
    const fixture *f = *state;
    write_file(f, "self", "0::/../../host/job\n");
    write_file(f, "cpu.max", "200000 100000\n");
    assert_true(limit(f) == 2);
}

static void version_1_and_hybrid(void **state)
{
    const fixture *f = *state;
    write_file(f, "self", "5:cpuacct,cpu:/job\n0::/u\n");
    write_file(f, "cpu,cpuacct/job/cpu.cfs_quota_us", "400000\n");
    write_file(f, "cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    assert_true(limit(f) == 4);
    write_file(f, "cpu/cpu.cfs_quota_us", "-1\n");
    write_file(f, "cpu/cpu.cfs_period_us", "100000\n");
    assert_true(limit(f) == 4);
    write_file(f, "unified/u/cpu.max", "300000 100000\n");
    assert_true(limit(f) == 3);
}

static double memory_room(const fixture *f)
{
    return lsi_cgroup_memory_left(f->groups, f->root);
}

static void memory_of_version_2(void **state)
{
    const fixture *f = *state;
    assert_true(memory_room(f) == 0);
    write_file(f, "self", "0::/a/b\n");
    write_file(f, "a/b/memory.max", "max\n");
    write_file(f, "a/b/memory.current", "500\n");
    assert_true(memory_room(f) == 0);
    write_file(f, "a/memory.max", "9000\n");
    write_file(f, "a/memory.current", "2000\n");
    assert_true(memory_room(f) == 7000);
    write_file(f, "a/memory.stat",
               "anon 5\nactive_file 7\ninactive_file 100\n"
               "slab_reclaimable 20\nslab_unreclaimable 3000\n");
    assert_true(memory_room(f) == 7127);
    write_file(f, "a/b/memory.max", "400\n");
    assert_true(memory_room(f) == 1);
}

static void memory_of_version_1(void **state)
{
    const fixture *f = *state;
    write_file(f, "self", "4:memory:/job\n0::/\n");
    write_file(f, "memory/job/memory.limit_in_bytes", "5000\n");
    assert_true(memory_room(f) == 0);
    write_file(f, "memory/job/memory.usage_in_bytes", "3000\n");
    write_file(f, "memory/job/memory.stat",
               "inactive_file 9\ntotal_active_file 200\n"
               "total_inactive_file 1000\n");
    assert_true(memory_room(f) == 3200);
}

static void oom_texts(void **state)
{
    (void)state;
    uint64_t kills = 99;
    assert_true(lsi_cgroup_parse_oom("low 0\nhigh 1\nmax 2\noom 3\noom_kill "
                                     "4\noom_group_kill 5\n",
                                     &kills));
    assert_int_equal(kills, 4);
    assert_true(lsi_cgroup_parse_oom(
        "oom_kill_disable 0\nunder_oom 0\noom_kill 12", &kills));
    assert_int_equal(kills, 12);
    static const char *const none[] = {
        "", "\n", "oom_kill", "oom_kill ", "oom_kill x", "oom 3\nmax 2\n"};
    for (size_t i = 0; i < TEST_COUNT(none); i++)
        assert_false(lsi_cgroup_parse_oom(none[i], &kills));
    assert_int_equal(kills, 12);
}

/* Its own group, or the nearest above it that is there. */
static void oom_kills_of_a_group(void **state)
{
    const fixture *f = *state;
    uint64_t kills = 99;
    write_file(f, "self", "0::/job/step\n");
    assert_false(lsi_cgroup_oom_kills(f->groups, f->root, &kills));
    write_file(f, "job/memory.events", "oom 1\noom_kill 2\n");
    assert_true(lsi_cgroup_oom_kills(f->groups, f->root, &kills));
    assert_int_equal(kills, 2);
    write_file(f, "job/step/memory.events", "oom_kill 3\n");
    assert_true(lsi_cgroup_oom_kills(f->groups, f->root, &kills));
    assert_int_equal(kills, 3);
    write_file(f, "self", "7:memory:/slurm\n0::/elsewhere\n");
    write_file(f, "memory/slurm/memory.oom_control", "oom_kill 5\n");
    assert_true(lsi_cgroup_oom_kills(f->groups, f->root, &kills));
    assert_int_equal(kills, 5);
}

int main(void)
{
#define ON_FILES(name)                                                         \
    cmocka_unit_test_setup_teardown(name, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v2_texts),
        cmocka_unit_test(v1_texts),
        cmocka_unit_test(paths),
        ON_FILES(no_files_no_limit),
        ON_FILES(the_tightest_ancestor_counts),
        ON_FILES(a_path_outside_leaves_the_root),
        ON_FILES(version_1_and_hybrid),
        ON_FILES(memory_of_version_2),
        ON_FILES(memory_of_version_1),
        ON_FILES(oom_kills_of_a_group),
        cmocka_unit_test(oom_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

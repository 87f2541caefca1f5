/*
 * Traces that are limited, by their size or to some steps: what is there is
 * complete, and what is not there is named.
 */
#include "testing.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/lockstep.h"
#include "observe/span_file.h"
#include "report/timeline.h"

enum { RANGES = 700, STEPS = 3000 };

static char folder[64];

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lockstep-span-limits-XXXXXX");
    setenv("LOCKSTEP_TRACE_LIMIT", "4m", 1);
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static const char *in_folder(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Bytes of all files, and how many there are. */
static uint64_t bytes_of_files(int *files, bool removed)
{
    uint64_t bytes = 0;
    DIR *const all = opendir(folder);
    *files = 0;
    for (const struct dirent *e; all != NULL && (e = readdir(all)) != NULL;) {
        struct stat info;
        const char *const path = in_folder(e->d_name);
        if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
            continue;
        bytes += (uint64_t)info.st_size;
        ++*files;
        if (removed)
            (void)remove(path);
    }
    if (all != NULL)
        closedir(all);
    return bytes;
}

static int end(void **state)
{
    int files;
    (void)state;
    (void)bytes_of_files(&files, true);
    return rmdir(folder);
}

static void take_step(uint64_t number, bool marked)
{
    const uint64_t began = lsi_span_begin();
    for (int i = 0; i < RANGES; i++) {
        ls_range_push("in a step");
        ls_range_pop();
    }
    if (marked)
        lsi_span_step(began, number);
}

/* How many spans each step has; [0]: those that no step has. */
static uint32_t spans_in[STEPS + 1];

static void count_by_step(lsi_timeline_process *p)
{
    int64_t end = INT64_MIN;
    uint64_t step = 0;
    assert_ok(lsi_timeline_load(p));
    memset(spans_in, 0, sizeof spans_in);
    for (size_t i = 0; i < p->n; i++) {
        const lsi_timeline_span *const s = &p->spans[i];
        if (s->kind == LSI_SPAN_STEP) {
            assert_true(s->id >= 1 && s->id <= STEPS);
            step = s->id;
            end = s->end;
        } else if (s->kind == LSI_SPAN_RANGE) {
            spans_in[s->end <= end ? step : 0]++;
        }
    }
}

static char *warnings(const lsi_timeline *t)
{
    static char text[1024];
    memset(text, 0, sizeof text);
    FILE *const stream = fmemopen(text, sizeof text - 1, "w");
    assert_non_null(stream);
    lsi_timeline_warn(t, stream);
    fclose(stream);
    return text;
}

/* ---- the size ------------------------------------------------------------ */

static void the_oldest_steps_make_room(void **state)
{
    lsi_timeline *t = NULL;
    char expected[128];
    int files;
    (void)state;
    assert_ok(lsi_span_start(folder));
    for (uint64_t i = 1; i <= STEPS; i++) {
        take_step(i, true);
        if (i % 100 == 0)
            assert_true(bytes_of_files(&files, false) <= LSI_SPAN_LEAST_LIMIT);
    }
    lsi_span_stop();
    assert_in_range(bytes_of_files(&files, false), LSI_SPAN_LEAST_LIMIT / 2,
                    LSI_SPAN_LEAST_LIMIT);
    assert_in_range(files, 4, 10);
    assert_ok(lsi_timeline_read(folder, &t));
    assert_int_equal(t->n, 1);
    lsi_timeline_process *const p = t->process[0];
    assert_true(p->whole);
    assert_true(p->missing > 0);
    assert_int_equal(p->first_missing, 1);
    assert_in_range(p->last_missing, 100, STEPS - 100);
    count_by_step(p);
    assert_int_equal(spans_in[0], 0);
    for (uint64_t i = 1; i <= STEPS; i++)
        assert_int_equal(spans_in[i], i <= p->last_missing ? 0 : RANGES);
    snprintf(expected, sizeof expected, "lacks steps 1 to %d: the oldest",
             (int)p->last_missing);
    assert_non_null(strstr(warnings(t), expected));
    lsi_timeline_free(&t);
}

static void without_steps_spans_are_counted(void **state)
{
    lsi_timeline *t = NULL;
    int files;
    (void)state;
    assert_ok(lsi_span_start(folder));
    for (uint64_t i = 1; i <= STEPS; i++)
        take_step(i, false);
    lsi_span_stop();
    assert_true(bytes_of_files(&files, false) <= LSI_SPAN_LEAST_LIMIT);
    assert_ok(lsi_timeline_read(folder, &t));
    const lsi_timeline_process *const p = t->process[0];
    assert_int_equal(p->n + p->missing, STEPS * RANGES);
    assert_true(p->missing > 0);
    assert_int_equal(p->first_missing, 0);
    assert_non_null(
        strstr(warnings(t), "spans: the oldest parts were deleted"));
    lsi_timeline_free(&t);
}

static void a_killed_process_leaves_what_it_had(void **state)
{
    lsi_timeline *t = NULL;
    int status;
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        if (lsi_span_start(folder) == LS_OK)
            for (uint64_t i = 1; i <= STEPS; i++)
                take_step(i, true);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_ok(lsi_timeline_read(folder, &t));
    assert_false(t->process[0]->whole);
    assert_true(t->process[0]->n > 10000);
    assert_true(t->process[0]->missing > 0);
    lsi_timeline_free(&t);
}

/* A program that only communicates marks no steps. */
static void a_killed_process_without_steps_leaves_its_calls(void **state)
{
    const lsi_span call = {.begin = 1, .end = 2};
    lsi_timeline *t = NULL;
    int status;
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        lsi_span_set_rank(0, 1, 1);
        if (lsi_span_start(folder) == LS_OK) {
            lsi_span_put(LSI_SPAN_TRANSFER, "all_reduce", call);
            usleep(1100000);
            lsi_span_put(LSI_SPAN_TRANSFER, "all_reduce", call);
        }
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_ok(lsi_timeline_read(folder, &t));
    assert_int_equal(t->process[0]->n, 2);
    lsi_timeline_free(&t);
}

static void zero_is_no_limit(void **state)
{
    lsi_timeline *t = NULL;
    (void)state;
    setenv("LOCKSTEP_TRACE_LIMIT", "0", 1);
    assert_ok(lsi_span_start(folder));
    for (uint64_t i = 1; i <= STEPS; i++)
        take_step(i, true);
    lsi_span_stop();
    assert_ok(lsi_timeline_read(folder, &t));
    assert_int_equal(t->process[0]->missing, 0);
    count_by_step(t->process[0]);
    for (int i = 1; i <= STEPS; i++)
        assert_int_equal(spans_in[i], RANGES);
    assert_string_equal(warnings(t), "");
    lsi_timeline_free(&t);
}

static void what_is_no_limit_is_refused(void **state)
{
    static const char *const wrong[] = {"1k", "4095k", "-1", "much", "1t"};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        setenv("LOCKSTEP_TRACE_LIMIT", wrong[i], 1);
        assert_error(lsi_span_start(folder), LS_ERR_ARGUMENT,
                     "is not a size of 4m or more");
    }
}

/* ---- files of others ----------------------------------------------------- */

static void write_text(const char *path, const char *text)
{
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static char trace_name[64];

static const char *trace_path(const char *rest)
{
    snprintf(trace_name, sizeof trace_name, "process-%d%s", (int)getpid(),
             rest);
    return in_folder(trace_name);
}

static void files_of_an_earlier_run_are_removed(void **state)
{
    lsi_timeline *t = NULL;
    int files;
    (void)state;
    write_text(trace_path(".lstrace"), "old");
    write_text(trace_path(".1.lstrace"), "old");
    write_text(trace_path(".12.lstrace"), "old");
    write_text(trace_path("0.lstrace"), "of another process");
    assert_ok(lsi_span_start(folder));
    take_step(1, true);
    lsi_span_stop();
    (void)bytes_of_files(&files, false);
    assert_int_equal(files, 2);
    (void)remove(trace_path("0.lstrace"));
    assert_ok(lsi_timeline_read(folder, &t));
    assert_int_equal(t->process[0]->n, RANGES + 1);
    lsi_timeline_free(&t);
}

/* Another user with access to the folder may have put a link there. */
static void links_are_not_followed(void **state)
{
    char target[512], got[8] = "";
    struct stat info;
    (void)state;
    snprintf(target, sizeof target, "%s", in_folder("precious"));
    for (int hard = 0; hard < 2; hard++) {
        write_text(target, "data");
        const char *const path = trace_path(".lstrace");
        (void)remove(path);
        assert_int_equal(hard ? link(target, path) : symlink(target, path), 0);
        assert_ok(lsi_span_start(folder));
        take_step(1, true);
        lsi_span_stop();
        FILE *const file = fopen(target, "r");
        assert_non_null(file);
        assert_int_equal(fread(got, 1, sizeof got - 1, file), 4);
        fclose(file);
        assert_string_equal(got, "data");
        assert_int_equal(lstat(trace_path(".lstrace"), &info), 0);
        assert_true(S_ISREG(info.st_mode) && info.st_size > RANGES);
    }
}

/* ---- steps --------------------------------------------------------------- */

static void what_is_no_range_of_steps_is_refused(void **state)
{
    static const char *const wrong[] = {
        "",     "5",    "5:",   ":5",    "0:5",  "5:0",
        "-1:5", "5:-1", "5:5x", "5:5:5", " 5:5", "1:99999999999999999999",
        "5-9",
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(wrong); i++)
        assert_error(lsi_span_limit_steps("--trace-steps", wrong[i]),
                     LS_ERR_ARGUMENT, "--trace-steps '");
    assert_ok(lsi_span_limit_steps("--trace-steps", NULL));
    assert_ok(lsi_span_start(folder));
    lsi_span_begin_step(1000000);
    assert_true(lsi_span_is_written());
    lsi_span_stop();
}

/* First: afterwards steps have numbers. */
static void steps_are_those_of_the_optimizer(void **state)
{
    lsi_timeline *t = NULL;
    (void)state;
    assert_ok(lsi_span_limit_steps("x", "3:2"));
    assert_ok(lsi_span_start(folder));
    for (int i = 1; i <= 6; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        ls_range_push(name);
        ls_range_pop();
        lsi_span_end_optimizer_step();
    }
    lsi_span_stop();
    assert_ok(lsi_timeline_read(folder, &t));
    lsi_timeline_process *const p = t->process[0];
    assert_ok(lsi_timeline_load(p));
    assert_int_equal(p->n, 2);
    assert_string_equal(lsi_timeline_name(p, &p->spans[0]), "3");
    assert_string_equal(lsi_timeline_name(p, &p->spans[1]), "4");
    lsi_timeline_free(&t);
}

static void only_these_steps_are_traced(void **state)
{
    static const char *const ranges[] = {"1:3", "41:2", "100:1", "100:50"};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(ranges); i++) {
        lsi_timeline *t = NULL;
        const uint64_t first = strtoull(ranges[i], NULL, 10);
        const uint64_t n = strtoull(strchr(ranges[i], ':') + 1, NULL, 10);
        assert_ok(lsi_span_limit_steps("x", ranges[i]));
        assert_ok(lsi_span_start(folder));
        for (uint64_t step = 1; step <= 100; step++) {
            lsi_span_begin_step(step);
            take_step(step, true);
        }
        lsi_span_stop();
        assert_ok(lsi_timeline_read(folder, &t));
        assert_true(t->process[0]->whole);
        count_by_step(t->process[0]);
        for (uint64_t step = 1; step <= 100; step++)
            assert_int_equal(spans_in[step],
                             step >= first && step < first + n ? RANGES : 0);
        lsi_timeline_free(&t);
    }
}

int main(void)
{
    unsetenv("LOCKSTEP_TRACE");
    unsetenv("LOCKSTEP_TRACE_STEPS");
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(the_oldest_steps_make_room),
        TEST(without_steps_spans_are_counted),
        TEST(a_killed_process_leaves_what_it_had),
        TEST(a_killed_process_without_steps_leaves_its_calls),
        TEST(zero_is_no_limit),
        TEST(what_is_no_limit_is_refused),
        TEST(files_of_an_earlier_run_are_removed),
        TEST(links_are_not_followed),
        TEST(what_is_no_range_of_steps_is_refused),
        TEST(steps_are_those_of_the_optimizer),
        TEST(only_these_steps_are_traced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Spans from where they are recorded to the timeline: what was put in comes
 * out, in order and nested, from several threads and beyond a buffer's length.
 */
#include "testing.h"

#include "chunks.h"

#include <dirent.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "lockstep/lockstep.h"
#include "observe/names.h"
#include "observe/span_file.h"
#include "report/timeline.h"

static char folder[64];

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lockstep-timeline-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int end(void **state)
{
    char path[512];
    DIR *const all = opendir(folder);
    (void)state;
    for (const struct dirent *e; all != NULL && (e = readdir(all)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        (void)remove(path);
    }
    if (all != NULL)
        closedir(all);
    return rmdir(folder);
}

/* Of a timeline with all spans in memory. */
static lsi_timeline *read_all(void)
{
    lsi_timeline *t = NULL;
    assert_ok(lsi_timeline_read(folder, &t));
    for (size_t i = 0; i < t->n; i++)
        assert_ok(lsi_timeline_load(t->process[i]));
    return t;
}

static size_t count(const lsi_timeline_process *p, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += strcmp(lsi_timeline_name(p, &p->spans[i]), name) == 0;
    return n;
}

static const lsi_timeline_span *find(const lsi_timeline_process *p,
                                     const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(lsi_timeline_name(p, &p->spans[i]), name) == 0)
            return &p->spans[i];
    fail_msg("there is no span \"%s\"", name);
    return NULL;
}

/* Whether spans of each thread lie in each other or apart. */
static void check_nesting(const lsi_timeline_process *p)
{
    for (size_t i = 0; i < p->n; i++)
        for (size_t j = i + 1; j < p->n && p->spans[j].begin < p->spans[i].end;
             j++)
            if (p->spans[i].thread == p->spans[j].thread)
                assert_true(p->spans[j].end <= p->spans[i].end);
}

static void nothing_is_recorded_when_off(void **state)
{
    (void)state;
    assert_false(ls_range_is_recorded());
    ls_range_push("off");
    ls_range_pop();
    lsi_timeline *t = NULL;
    assert_error(lsi_timeline_read(folder, &t), LS_ERR_NOT_FOUND,
                 "contains no traces");
}

static void ranges_nest(void **state)
{
    lsi_timeline *t = NULL;
    char name[201];
    (void)state;
    memset(name, 'n', 200);
    name[200] = '\0';
    assert_ok(lsi_span_start(folder));
    assert_true(ls_range_is_recorded());
    ls_range_pop(); /* of none */
    ls_range_push("outer");
    ls_range_push_work("inner", 1000, 1ULL << 60);
    ls_range_pop();
    ls_range_push(name);
    ls_range_pop();
    ls_range_push(NULL);
    ls_range_pop();
    for (int i = 0; i < 100; i++)
        ls_range_push("deep");
    for (int i = 0; i < 100; i++)
        ls_range_pop();
    ls_range_pop();
    lsi_span_stop();
    ls_range_push("late");
    ls_range_pop();
    t = read_all();
    assert_int_equal(t->n, 1);
    const lsi_timeline_process *const p = t->process[0];
    assert_true(p->whole);
    assert_int_equal(p->pid, getpid());
    check_nesting(p);
    const lsi_timeline_span *const inner = find(p, "inner");
    const lsi_timeline_span *const outer = find(p, "outer");
    assert_true(outer->begin <= inner->begin && inner->end <= outer->end);
    assert_int_equal(inner->bytes, 1000);
    assert_true(inner->work == 1ULL << 60);
    name[95] = '\0';
    assert_int_equal(count(p, name), 1);
    assert_int_equal(count(p, "unnamed"), 1);
    assert_int_equal(count(p, "deep"), 63);
    assert_int_equal(count(p, "late"), 0);
    lsi_timeline_free(&t);
}

enum { THREADS = 5, EACH = 30001 };

static void *record(void *context)
{
    const char *const name = context;
    for (int i = 0; i < EACH; i++) {
        ls_range_push(name);
        ls_range_push("in");
        ls_range_pop();
        ls_range_pop();
    }
    return NULL;
}

static void no_span_is_lost(void **state)
{
    static const char *const names[THREADS] = {"a", "b", "c", "d", "e"};
    pthread_t threads[THREADS];
    lsi_timeline *t = NULL;
    (void)state;
    assert_ok(lsi_span_start(folder));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, record,
                                        (void *)(uintptr_t)names[i]),
                         0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    lsi_span_stop();
    t = read_all();
    const lsi_timeline_process *const p = t->process[0];
    assert_int_equal(p->n, 2 * THREADS * EACH);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(count(p, names[i]), EACH);
    for (size_t i = 1; i < p->n; i++)
        assert_true(lsi_timeline_order(&p->spans[i - 1], &p->spans[i]) <= 0);
    lsi_timeline_free(&t);
}

static void more_names_than_there_is_room_for(void **state)
{
    lsi_timeline *t = NULL;
    char name[32];
    (void)state;
    assert_ok(lsi_span_start(folder));
    for (int i = 0; i < 2 * LSI_NAMES; i++) {
        snprintf(name, sizeof name, "name %d", i);
        ls_range_push(name);
        ls_range_pop();
    }
    lsi_span_stop();
    t = read_all();
    assert_int_equal(t->process[0]->n, 2 * LSI_NAMES);
    assert_true(count(t->process[0], "other") >= LSI_NAMES);
    lsi_timeline_free(&t);
}

/* A child does not write to its parent's file, and may write a separate one. */
static void a_forked_child_has_its_own(void **state)
{
    lsi_timeline *t = NULL;
    (void)state;
    assert_ok(lsi_span_start(folder));
    ls_range_push("parent");
    const pid_t child = fork();
    if (child == 0) {
        const bool off = !ls_range_is_recorded();
        ls_range_pop();
        const bool on = lsi_span_start(folder) == LS_OK;
        ls_range_push("child");
        ls_range_pop();
        lsi_span_stop();
        _exit(off && on ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    ls_range_pop();
    lsi_span_stop();
    t = read_all();
    assert_int_equal(t->n, 2);
    const bool first = t->process[0]->pid == (int)child;
    assert_int_equal(count(t->process[first ? 0 : 1], "child"), 1);
    assert_int_equal(count(t->process[first ? 0 : 1], "parent"), 0);
    assert_int_equal(count(t->process[first ? 1 : 0], "parent"), 1);
    lsi_timeline_free(&t);
}

/* The format that Chrome and Perfetto read: every event of the form that its
 * kind has. */
static void the_timeline_is_json(void **state)
{
    lsi_timeline *t = NULL;
    char *text = NULL;
    size_t bytes = 0, slices = 0;
    json_t *event;
    (void)state;
    assert_ok(lsi_span_start(folder));
    ls_range_push("with \"quotes\", \\ and \xff");
    ls_range_pop();
    lsi_span_stop();
    assert_ok(lsi_timeline_read(folder, &t));
    FILE *const stream = open_memstream(&text, &bytes);
    assert_ok(lsi_timeline_chrome(t, stream));
    fclose(stream);
    json_t *const json = json_loadb(text, bytes, 0, NULL);
    assert_non_null(json);
    for (size_t i = 0;
         i < json_array_size(json_object_get(json, "traceEvents")); i++) {
        event = json_array_get(json_object_get(json, "traceEvents"), i);
        slices +=
            strcmp(json_string_value(json_object_get(event, "ph")), "X") == 0;
    }
    assert_int_equal(slices, 1);
    json_decref(json);
    free(text);
    lsi_timeline_free(&t);
}

/* ---- files that are something else --------------------------------------- */

static void read_file(char **text, size_t *bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/process-%d.lstrace", folder, (int)getpid());
    assert_ok(lsi_read_regular(path, 0, text, bytes));
}

static void what_is_cut_off_is_good_up_to_there(void **state)
{
    lsi_timeline_process *p = NULL;
    char *text = NULL;
    size_t bytes, most = 0, good = 0;
    (void)state;
    assert_ok(lsi_span_start(folder));
    for (int i = 0; i < 20000; i++) {
        ls_range_push("range");
        ls_range_pop();
    }
    lsi_span_stop();
    read_file(&text, &bytes);
    for (size_t n = 0; n <= bytes; n += n < 2000 ? 1 : 997) {
        const ls_status status = chunks_read(chunks_file(text, n), &p);
        if (status != LS_OK) {
            assert_int_equal(status, LS_ERR_FORMAT);
            assert_int_equal(good, 0); /* a longer one is never worse */
            continue;
        }
        good++;
        assert_true(p->n >= most);
        assert_int_equal(p->whole, false);
        most = p->n;
        lsi_timeline_process_free(&p);
    }
    assert_true(good > 0);
    assert_ok(chunks_read(chunks_file(text, bytes), &p));
    assert_true(p->whole);
    assert_int_equal(p->n, 20000);
    lsi_timeline_process_free(&p);
    lsi_free(text);
}

static void what_is_foreign_is_refused(void **state)
{
    lsi_timeline_process *p = NULL;
    char *text = NULL;
    size_t bytes;
    (void)state;
    assert_ok(lsi_span_start(folder));
    ls_range_push("range");
    ls_range_pop();
    lsi_span_stop();
    read_file(&text, &bytes);
    assert_error(chunks_read(chunks_file("{}", 2), &p), LS_ERR_FORMAT,
                 "is not a trace or a recording");
    assert_error(chunks_read(chunks_file(text, 0), &p), LS_ERR_FORMAT,
                 "is not a trace or a recording");
    char *const version = strstr(text + 13, "\"lockstep_trace\":2");
    assert_non_null(version);
    version[17] = '9';
    assert_error(chunks_read(chunks_file(text, bytes), &p), LS_ERR_FORMAT,
                 "is a trace of version 9; this program reads version 2");
    version[17] = '2';
    text[8] = 'Q';
    assert_error(chunks_read(chunks_file(text, bytes), &p), LS_ERR_FORMAT,
                 "is not a valid trace or recording of memory");
    lsi_free(text);
}

int main(void)
{
    unsetenv("LOCKSTEP_TRACE");
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(nothing_is_recorded_when_off),
        TEST(ranges_nest),
        TEST(no_span_is_lost),
        TEST(a_forked_child_has_its_own),
        TEST(the_timeline_is_json),
        TEST(what_is_cut_off_is_good_up_to_there),
        TEST(what_is_foreign_is_refused),
        TEST(more_names_than_there_is_room_for), /* last: names stay */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

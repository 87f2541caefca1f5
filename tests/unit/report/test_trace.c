/*
 * Reading records: one that is right, and the same with one thing in it that no
 * rank writes.
 */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/trace.h"

static json_t *call_of(json_int_t sequence)
{
    return json_pack("{s:I, s:s, s:s, s:I, s:s, s:s, s:i, s:s, s:I, s:I}",
                     "sequence", sequence, "call", "barrier", "operation",
                     "barrier", "count", (json_int_t)0, "dtype", "f32", "redop",
                     "sum", "root", 0, "status", "done", "began_ns",
                     (json_int_t)5, "ended_ns", (json_int_t)6);
}

static json_t *record(void)
{
    json_t *json = json_pack(
        "{s:i, s:s, s:i, s:i, s:i, s:s, s:i, s:s, s:I, s:I, s:i, s:n, s:[o], "
        "s:[o, o], s:[]}",
        "lockstep_record", 1, "job", "j", "group", 0, "rank", 0, "size", 1,
        "host", "here", "pid", 7, "reason", "SIGUSR1", "written_ns",
        (json_int_t)9, "wall_ns", (json_int_t)9, "completed", 2, "failure",
        "ranks", json_pack("{s:s}", "presence", "alive"), "collectives",
        call_of(1), call_of(2), "messages");
    assert_non_null(json);
    return json;
}

static void a_record_is_read(void **state)
{
    lsi_trace *trace = NULL;
    (void)state;
    assert_ok(lsi_trace_of_json(record(), "a", &trace));
    assert_int_equal(trace->collectives.n, 2);
    assert_int_equal(trace->collectives.call[1].sequence, 2);
    assert_string_equal(trace->host, "here");
    lsi_trace_free(&trace);
}

/* A path such as "collectives/1/sequence". */
static json_t *place_of(json_t *json, const char *path, char *last)
{
    char name[32];
    for (;;) {
        const size_t n = strcspn(path, "/");
        memcpy(name, path, n);
        name[n] = '\0';
        if (path[n] == '\0') {
            memcpy(last, name, n + 1);
            return json;
        }
        json = json_is_array(json)
                   ? json_array_get(json, (size_t)strtol(name, NULL, 10))
                   : json_object_get(json, name);
        path += n + 1;
    }
}

static const struct damage {
    const char *path, *value, *message;
} damages[] = {
    {"lockstep_record", "2", "version 2"},
    {"lockstep_record", "\"1\"", "not a record of a rank"},
    {"job", "5", "not a valid record"},
    {"rank", "1", "a rank or a time is out of range"},
    {"rank", "-1", "a rank or a time is out of range"},
    {"size", "0", "a rank or a time is out of range"},
    {"size", "1025", "a rank or a time is out of range"},
    {"size", "1.5", "not a valid record"},
    {"written_ns", "-9223372036854775808", "a rank or a time is out of range"},
    {"written_ns", "9223372036854775807", "a rank or a time is out of range"},
    {"wall_ns", "-1", "a rank or a time is out of range"},
    {"wall_ns", "4611686018427387904", "a rank or a time is out of range"},
    {"collectives", "{}", "not a list"},
    {"collectives/1", "[]", "not a valid record"},
    {"collectives/1/sequence", "1", "not in order"},
    {"collectives/0/sequence", "0", "not in order"},
    {"collectives/1/sequence", "9223372036854775807",
     "number of an operation is out of range"},
    {"collectives/0/began_ns", "-1", "number of an operation is out of range"},
    {"collectives/0/began_ns", "4611686018427387904",
     "number of an operation is out of range"},
    {"ranks", "[]", "does not list all ranks"},
    {"ranks/0", "{}", "not a valid record"},
    {"failure",
     "{\"kind\": \"LS_ERR_PEER_DEAD\", \"sequence\": 1, \"rank\": 1}",
     "a rank or a time is out of range"},
    {"failure", "{\"kind\": \"LS_ERR_MISMATCH\", \"sequence\": 1}",
     "without the calls"},
    {"failure",
     "{\"kind\": \"LS_ERR_MISMATCH\", \"sequence\": 1, \"field\": \"root\", "
     "\"sides\": [{}]}",
     "not a valid record"},
};

static void a_damaged_record_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(damages); i++) {
        char last[32];
        lsi_trace *trace = NULL;
        json_t *json = record();
        json_t *value = json_loads(damages[i].value, JSON_DECODE_ANY, NULL);
        json_t *parent = place_of(json, damages[i].path, last);
        assert_non_null(value);
        if (json_is_array(parent))
            json_array_set_new(parent, (size_t)strtol(last, NULL, 10), value);
        else
            json_object_set_new(parent, last, value);
        assert_error(lsi_trace_of_json(json, "the file", &trace), LS_ERR_FORMAT,
                     damages[i].message);
        assert_non_null(strstr(ls_last_error(), "the file"));
        assert_null(trace);
    }
}

/* Nobody writes to it, so reading it would wait. */
static void a_pipe_is_refused(void **state)
{
    char folder[] = "/tmp/lockstep-trace-XXXXXX", path[64];
    lsi_trace *trace = NULL;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_error(lsi_trace_read(path, &trace), LS_ERR_IO, "not a regular file");
    unlink(path);
    assert_error(lsi_trace_read(path, &trace), LS_ERR_IO, "cannot open");
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_read),
        cmocka_unit_test(a_damaged_record_is_refused),
        cmocka_unit_test(a_pipe_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

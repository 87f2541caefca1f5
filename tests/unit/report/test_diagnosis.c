/*
 * The diagnosis of records made by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "report/diagnosis.h"

enum { RANKS = 4, CALLS = 3 };

#define SECOND 1000000000LL
#define NOW    (100 * SECOND)

/* A group whose ranks have done #1 to #3, all-reduces that took no time. */
typedef struct scene {
    lsi_trace_call call[RANKS][CALLS], message[RANKS][1];
    lsi_trace_rank view[RANKS];
    lsi_trace trace[RANKS];
    const lsi_trace *given[RANKS];
    size_t n;
    lsi_diagnosis found;
} scene;

static lsi_trace_call all_reduce(int64_t sequence)
{
    return (lsi_trace_call){.sequence = sequence,
                            .call = "all_reduce of 8 f32 (sum)",
                            .operation = "all_reduce",
                            .dtype = "f32",
                            .redop = "sum",
                            .count = 8,
                            .status = "done",
                            .began_ns = (90 + sequence) * SECOND,
                            .ended_ns = (90 + sequence) * SECOND};
}

static scene *healthy(void)
{
    static scene s;
    memset(&s, 0, sizeof(s));
    for (int r = 0; r < RANKS; r++) {
        for (int i = 0; i < CALLS; i++)
            s.call[r][i] = all_reduce(i + 1);
        s.view[r] = (lsi_trace_rank){"alive", "here", 100 + r, CALLS, CALLS, 0};
        s.trace[r] = (lsi_trace){.job = "j",
                                 .rank = r,
                                 .size = RANKS,
                                 .host = "here",
                                 .reason = "SIGUSR1",
                                 .written_ns = NOW,
                                 .wall_ns = NOW,
                                 .completed = CALLS,
                                 .ranks = s.view,
                                 .collectives = {s.call[r], CALLS}};
        s.given[r] = &s.trace[r];
    }
    s.n = RANKS;
    return &s;
}

/* An operation that a rank has not completed. */
static void leave_open(scene *s, int rank, int64_t sequence, const char *status)
{
    s->call[rank][sequence - 1].status = status;
    s->call[rank][sequence - 1].ended_ns = 0;
    s->trace[rank].collectives.n = (size_t)sequence;
    s->trace[rank].completed = s->view[rank].completed = sequence - 1;
}

/* The rank has finished a call and not begun the next. */
static void stop_after(scene *s, int rank, int64_t sequence)
{
    s->trace[rank].collectives.n = (size_t)sequence;
    s->trace[rank].completed = sequence;
    s->view[rank].completed = s->view[rank].arrived = sequence;
}

static void fail_all(scene *s, lsi_trace_failure failure)
{
    for (int r = 0; r < RANKS; r++)
        s->trace[r].failure = failure;
}

static const lsi_finding *only_finding(scene *s)
{
    lsi_diagnose(s->given, s->n, 1.0, &s->found);
    assert_int_equal(s->found.n_findings, 1);
    return &s->found.finding[0];
}

static void check(scene *s, lsi_finding_kind kind, const char *text)
{
    const lsi_finding *finding = only_finding(s);
    assert_int_equal(finding->kind, kind);
    assert_string_equal(finding->text, text);
}

/* ---- damage -------------------------------------------------------------- */

/* Numbers that are far apart: each is looked at, and none in between. */
static void gaps_cost_nothing(void **state)
{
    (void)state;
    scene *s = healthy();
    for (int r = 0; r < RANKS; r++)
        s->call[r][2].sequence = LSI_TRACE_NUMBERS - 1;
    s->call[1][2].count = 9;
    s->call[2][1].sequence = LSI_TRACE_NUMBERS / 2;
    check(s, LSI_FINDING_MISMATCH,
          "call #4611686018427387903 differs (count): ranks 0, 2-3: all_reduce "
          "of 8 f32 (sum); rank 1: all_reduce of 8 f32 (sum)");
    assert_int_equal(s->found.timed, 2);
}

static void clocks_may_be_far_apart(void **state)
{
    (void)state;
    scene *s = healthy();
    s->trace[1].host = "there";
    s->trace[1].wall_ns = LSI_TRACE_NUMBERS - 1;
    s->trace[1].written_ns = 0;
    s->trace[0].wall_ns = 0;
    s->trace[0].written_ns = LSI_TRACE_NUMBERS - 1;
    lsi_diagnose(s->given, s->n, 1.0, &s->found);
    assert_int_equal(s->found.timed, CALLS);
    assert_true(s->found.behind_us[1] > 9e15);
    assert_true(s->found.behind_us[0] == 0);
}

/* The meaning of a record's number depends on the operation. */
static void lines_and_buffers_are_no_counts(void **state)
{
    static const char *const texts[][2] = {
        {"select",
         "call #2 differs (line): ranks 0-1, 3: select; rank 2: select"},
        {"shared_free", "call #2 differs (buffer): ranks 0-1, 3: shared_free; "
                        "rank 2: shared_free"}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        scene *s = healthy();
        for (int r = 0; r < RANKS; r++)
            s->call[r][1].operation = s->call[r][1].call = texts[i][0];
        s->call[2][1].count = 9;
        check(s, LSI_FINDING_MISMATCH, texts[i][1]);
    }
}

/* ---- nothing ------------------------------------------------------------- */

static void health_is_no_finding(void **state)
{
    (void)state;
    scene *s = healthy();
    s->call[2][1].began_ns += 3000;
    lsi_diagnose(s->given, s->n, 1.0, &s->found);
    assert_int_equal(s->found.n_findings, 0);
    assert_int_equal(s->found.last_completed, CALLS);
    assert_int_equal(s->found.timed, CALLS);
    assert_float_equal(s->found.behind_us[2], 1.0, 1e-9);
    assert_float_equal(s->found.behind_us[0], 0.0, 1e-9);
}

static void a_short_wait_is_no_finding(void **state)
{
    (void)state;
    scene *s = healthy();
    leave_open(s, 0, 3, "in flight");
    s->call[0][2].began_ns = NOW - SECOND / 2;
    stop_after(s, 1, 2);
    lsi_diagnose(s->given, s->n, 1.0, &s->found);
    assert_int_equal(s->found.n_findings, 0);
    assert_int_equal(s->found.last_completed, 2);
}

/* It failed on all ranks long ago, whatever its arguments, and is over. */
static void a_refused_call_is_no_finding(void **state)
{
    (void)state;
    scene *s = healthy();
    for (int r = 0; r < RANKS; r++) {
        s->call[r][1].status = "failed";
        s->call[r][1].refused = true;
    }
    s->call[1][1].count = 9;
    lsi_diagnose(s->given, s->n, 1.0, &s->found);
    assert_int_equal(s->found.n_findings, 0);
    assert_null(lsi_trace_unfinished(&s->trace[0].collectives));
}

static void ranks_need_no_order(void **state)
{
    (void)state;
    scene *s = healthy();
    s->given[0] = &s->trace[3];
    s->given[3] = &s->trace[0];
    lsi_diagnose(s->given, s->n, 1.0, &s->found);
    assert_int_equal(s->found.n_findings, 0);
}

/* ---- disagreement -------------------------------------------------------- */

static void differing_calls_are_told_apart(void **state)
{
    static const struct {
        lsi_trace_call call;
        const char *field;
    } others[] = {
        {{.operation = "barrier", .dtype = "f32", .redop = "sum", .count = 8},
         "operation"},
        {{.operation = "all_reduce",
          .dtype = "i32",
          .redop = "sum",
          .count = 8},
         "type"},
        {{.operation = "all_reduce",
          .dtype = "f32",
          .redop = "sum",
          .count = 9},
         "count"},
        {{.operation = "all_reduce",
          .dtype = "f32",
          .redop = "max",
          .count = 8},
         "reduction"},
        {{.operation = "all_reduce",
          .dtype = "f32",
          .redop = "sum",
          .count = 8,
          .root = 1},
         "root"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        char text[128];
        scene *s = healthy();
        s->call[1][1] = others[i].call;
        s->call[1][1].sequence = 2;
        s->call[1][1].call = "another";
        s->call[1][1].status = "failed";
        s->trace[1].collectives.n = 2;
        snprintf(text, sizeof(text),
                 "call #2 differs (%s): ranks 0, 2-3: all_reduce of 8 f32 "
                 "(sum); rank 1: another",
                 others[i].field);
        check(s, LSI_FINDING_MISMATCH, text);
        assert_int_equal(s->found.finding[0].sequence, 2);
    }
}

static void swapped_calls_are_recognised(void **state)
{
    (void)state;
    scene *s = healthy();
    for (int r = 0; r < RANKS; r++) {
        lsi_trace_call *call = &s->call[r][r == 1 ? 1 : 2];
        call->operation = "barrier";
        call->call = "barrier";
    }
    check(s, LSI_FINDING_MISMATCH,
          "call #2 differs (operation): ranks 0, 2-3: all_reduce of 8 f32 "
          "(sum); rank 1: barrier; the ranks make these calls in different "
          "orders");
}

/* Only one side has written, but it knows the other. */
static void one_file_tells_both_sides(void **state)
{
    (void)state;
    scene *s = healthy();
    leave_open(s, 0, 3, "failed");
    fail_all(s, (lsi_trace_failure){.kind = "LS_ERR_MISMATCH",
                                    .sequence = 3,
                                    .field = "count",
                                    .side = {{0, "X"}, {1, "Y"}}});
    s->n = 1;
    lsi_diagnose(s->given, s->n, 1e9, &s->found);
    assert_int_equal(s->found.finding[0].kind, LSI_FINDING_MISMATCH);
    assert_string_equal(s->found.finding[0].text,
                        "call #3 differs (count): rank 0: X; rank 1: Y");
}

static void messages_differ_too(void **state)
{
    (void)state;
    scene *s = healthy();
    fail_all(s, (lsi_trace_failure){.kind = "LS_ERR_MISMATCH",
                                    .field = "type",
                                    .side = {{1, "send"}, {0, "recv"}}});
    check(s, LSI_FINDING_MISMATCH,
          "sender and receiver disagree about a message (type): rank 1: send; "
          "rank 0: recv");
}

/* ---- death and lateness -------------------------------------------------- */

static void the_dead_are_named(void **state)
{
    (void)state;
    scene *s = healthy();
    for (int r = 0; r < 3; r++)
        leave_open(s, r, 3, "failed");
    s->view[3] = (lsi_trace_rank){"dead", "here", 103, 2, 3, 0};
    fail_all(s, (lsi_trace_failure){
                    .kind = "LS_ERR_PEER_DEAD", .sequence = 3, .rank = 3});
    for (int r = 0; r < 3; r++)
        s->call[r][2].began_ns = NOW - SECOND / 10;
    s->n = 3; /* it could not write */
    check(s, LSI_FINDING_DEAD,
          "rank 3 (host here, pid 103) died: its last completed call is #2, "
          "and it was in call #3; "
          "other ranks are in #3 all_reduce of 8 f32 (sum)");
    assert_int_equal(s->found.last_completed, 2);
}

static void the_late_are_named(void **state)
{
    (void)state;
    scene *s = healthy();
    for (int r = 0; r < RANKS; r++) {
        if (r == 2) {
            stop_after(s, r, 1);
            continue;
        }
        leave_open(s, r, 3, "in flight");
        s->call[r][2].began_ns = NOW - (r + 1) * SECOND;
    }
    check(s, LSI_FINDING_LATE,
          "ranks 0-1, 3 in #3 all_reduce of 8 f32 (sum) for 4.0 s; rank 2 "
          "(host here, pid 102, alive) has not arrived: its last completed "
          "call is #1");
    assert_int_equal(s->found.last_completed, 1);
}

static void the_missing_are_named(void **state)
{
    (void)state;
    scene *s = healthy();
    s->n = 3;
    check(s, LSI_FINDING_MISSING,
          "rank 3 (host here, pid 103, alive) has written no record: its last "
          "completed call is #3");
    s->view[3] = (lsi_trace_rank){"absent", "unknown", 0, 0, 0, 0};
    check(
        s, LSI_FINDING_MISSING,
        "rank 3 (host unknown, pid 0, absent) has written no record: it never "
        "joined the group");
}

static void lonely_messages_are_found(void **state)
{
    (void)state;
    scene *s = healthy();
    s->message[1][0] = (lsi_trace_call){.sequence = 1,
                                        .call = "recv of 4 f32",
                                        .operation = "recv",
                                        .status = "in flight",
                                        .began_ns = NOW - 2 * SECOND,
                                        .peer = 3};
    s->trace[1].messages = (lsi_trace_calls){s->message[1], 1};
    check(s, LSI_FINDING_MESSAGE,
          "rank 1 waits to receive from rank 3 for 2.0 s: recv of 4 f32");
}

static void other_failures_are_passed_on(void **state)
{
    (void)state;
    scene *s = healthy();
    fail_all(s, (lsi_trace_failure){.kind = "LS_ERR_SYSTEM", .sequence = 3});
    for (int r = 0; r < RANKS; r++)
        s->trace[r].reason = "no";
    check(s, LSI_FINDING_FAILED, "LS_ERR_SYSTEM: no");
}

/* Of two records of a rank the newer one counts. */
static void the_newest_counts(void **state)
{
    (void)state;
    scene *s = healthy();
    const lsi_trace *given[RANKS + 1];
    lsi_trace old = s->trace[1];
    lsi_trace_call open = all_reduce(2);
    open.status = "in flight";
    old.written_ns = old.wall_ns = NOW - SECOND;
    old.collectives = (lsi_trace_calls){&open, 1};
    memcpy(given, s->given, sizeof(s->given));
    given[RANKS] = &old;
    lsi_diagnose(given, RANKS + 1, 0.0, &s->found);
    assert_int_equal(s->found.n_findings, 0);
}

/* Each host counts from its own start, which was long ago on the other. */
static void hosts_have_clocks_of_their_own(void **state)
{
    (void)state;
    scene *s = healthy();
    for (int r = RANKS / 2; r < RANKS; r++) {
        s->trace[r].host = s->view[r].host = "there";
        s->trace[r].written_ns += 1000 * SECOND;
        for (int i = 0; i < CALLS; i++)
            s->call[r][i].began_ns += 1000 * SECOND + 2000;
        s->trace[r].reason = "the old one";
    }
    s->trace[0].wall_ns += SECOND;
    s->trace[0].written_ns += SECOND;
    s->trace[0].reason = "the new one";
    lsi_diagnose(s->given, s->n, 1.0, &s->found);
    assert_int_equal(s->found.n_findings, 0);
    assert_string_equal(s->found.newest->reason, "the new one");
    assert_int_equal(s->found.timed, CALLS);
    assert_float_equal(s->found.behind_us[0], 0.0, 1e-9);
    assert_float_equal(s->found.behind_us[RANKS - 1], 2.0, 1e-9);
}

static void who_waits_for_whom_is_said(void **state)
{
    (void)state;
    scene *s = healthy();
    for (int r = 0; r < RANKS; r++)
        leave_open(s, r, 2, "failed");
    s->view[1].waits_for = 1 + 2;
    fail_all(s, (lsi_trace_failure){.kind = "LS_ERR_TIMEOUT", .sequence = 2});
    lsi_diagnose(s->given, s->n, 1.0, &s->found);
    assert_int_equal(s->found.finding[0].kind, LSI_FINDING_LATE);
    assert_non_null(strstr(s->found.finding[0].text,
                           "does not finish; rank 1 waits for rank 2 (host "
                           "here, pid 102)"));
}

/* Many ranks, many findings: nothing overflows. */
static void a_thousand_ranks(void **state)
{
    static lsi_trace_rank view[LSI_TRACE_MOST_RANKS];
    static lsi_trace trace;
    static lsi_diagnosis found;
    const lsi_trace *given = &trace;
    (void)state;
    for (int r = 0; r < LSI_TRACE_MOST_RANKS; r++)
        view[r] = (lsi_trace_rank){"alive", "a host of long name", r, 0, 0, 0};
    lsi_trace_call call = all_reduce(1);
    call.status = "in flight";
    trace = (lsi_trace){.size = LSI_TRACE_MOST_RANKS,
                        .job = "j",
                        .reason = "",
                        .written_ns = NOW,
                        .ranks = view,
                        .collectives = {&call, 1}};
    lsi_diagnose(&given, 1, 1.0, &found);
    assert_int_equal(found.n_findings, LSI_FINDINGS);
    assert_int_equal(found.finding[0].kind, LSI_FINDING_LATE);
    assert_int_equal(found.finding[0].text[LSI_FINDING_BYTES - 1], '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_cost_nothing),
        cmocka_unit_test(clocks_may_be_far_apart),
        cmocka_unit_test(lines_and_buffers_are_no_counts),
        cmocka_unit_test(health_is_no_finding),
        cmocka_unit_test(a_short_wait_is_no_finding),
        cmocka_unit_test(a_refused_call_is_no_finding),
        cmocka_unit_test(ranks_need_no_order),
        cmocka_unit_test(differing_calls_are_told_apart),
        cmocka_unit_test(swapped_calls_are_recognised),
        cmocka_unit_test(one_file_tells_both_sides),
        cmocka_unit_test(messages_differ_too),
        cmocka_unit_test(the_dead_are_named),
        cmocka_unit_test(the_late_are_named),
        cmocka_unit_test(the_missing_are_named),
        cmocka_unit_test(lonely_messages_are_found),
        cmocka_unit_test(other_failures_are_passed_on),
        cmocka_unit_test(the_newest_counts),
        cmocka_unit_test(hosts_have_clocks_of_their_own),
        cmocka_unit_test(who_waits_for_whom_is_said),
        cmocka_unit_test(a_thousand_ranks),
    };
    return cmocka_run_group_tests_name("diagnosis", tests, NULL, NULL);
}

/*
 * Timelines of several ranks, whose files are written here: their clocks, their
 * collectives, and how spans are read.
 */
#include "testing.h"

#include "chunks.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
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

/* ---- files --------------------------------------------------------------- */

static unsigned char body[512];
static size_t used;

static void put(int64_t value)
{
    uint64_t v = (uint64_t)value;
    for (; v >= 128; v >>= 7)
        body[used++] = (unsigned char)(v | 128);
    body[used++] = (unsigned char)v;
}

static void write_chunk(FILE *file, char letter)
{
    fprintf(file, "%c%c%c%c%c", letter, (int)(used & 255), (int)(used >> 8), 0,
            0);
    fwrite(body, 1, used, file);
    used = 0;
}

static void write_head(FILE *file, int rank)
{
    used = (size_t)snprintf(
        (char *)body, sizeof body,
        "{\"lockstep_trace\":2,\"rank\":%d,\"size\":2,\"pid\":%d,"
        "\"host\":\"h%d\",\"boot\":\"b%d\",\"job\":\"j\"}",
        rank, rank + 1, rank, rank);
    fputs("LSTRACE2", file);
    write_chunk(file, 'H');
}

static void write_clock(FILE *file, int64_t ns, int64_t wall_ns)
{
    put(ns); /* a tick is a nanosecond */
    put(ns);
    put(wall_ns);
    write_chunk(file, 'C');
}

/* Spans are written by how far they begin from the end before. */
static void put_span(int kind, int i, int64_t begun, int64_t length,
                     int64_t *before)
{
    body[used++] = (unsigned char)(kind | LSI_SPAN_HAS_ID);
    put(0);
    put(2 * (begun - *before));
    put(length);
    put(i + 1);
    *before = begun + length;
}

/* Collectives of two ranks on machines whose clocks are `apart`. */
static void write_rank(int rank, int64_t apart)
{
    char path[128];
    snprintf(path, sizeof path, "%s/rank-%d.lstrace", folder, rank);
    FILE *const file = fopen(path, "wb");
    assert_non_null(file);
    write_head(file, rank);
    write_clock(file, apart, 0);
    write_clock(file, apart + 1000000, 1000000);
    for (int transfer = 0; transfer < 2; transfer++) {
        int64_t before = 0;
        put(0);
        put(10);
        for (int i = 0; i < 10; i++) {
            /* Rank 1 comes 300 later, and all know it 40 after that. */
            const int64_t begun = apart + 1000 * (i + 1) + 300 * rank;
            const int64_t met = apart + 1000 * (i + 1) + 340;
            if (transfer)
                put_span(LSI_SPAN_TRANSFER, i, met, 1, &before);
            else
                put_span(LSI_SPAN_GATHERING, i, begun, met - begun, &before);
        }
        write_chunk(file, 'E');
    }
    fclose(file);
}

/* ---- what is read ----------------------------------------------------------
 */

/* The timeline as JSON, with so few parts of collectives in memory. */
static char *chrome_text(lsi_timeline *t, size_t most_parts)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *const stream = open_memstream(&text, &bytes);
    t->most_parts = most_parts;
    assert_ok(lsi_timeline_chrome(t, stream));
    fclose(stream);
    return text;
}

static void collectives_are_joined_in_batches(void **state)
{
    lsi_timeline *t = NULL;
    int flows = 0;
    (void)state;
    write_rank(0, 1000);
    write_rank(1, 2000);
    assert_ok(lsi_timeline_read(folder, &t));
    char *const whole = chrome_text(t, 0);
    for (const char *at = whole; (at = strstr(at, "\"ph\":\"s\"")) != NULL;
         at++)
        flows++;
    assert_int_equal(flows, 10);
    for (size_t most = 1; most < 25; most++) {
        char *const text = chrome_text(t, most);
        assert_string_equal(text, whole);
        free(text);
    }
    free(whole);
    lsi_timeline_free(&t);
}

/* A clock that is set to the year 2129, or to before 1970, is not believed. */
static void the_time_of_day_may_jump(void **state)
{
    char path[128];
    lsi_timeline *t = NULL;
    (void)state;
    write_rank(0, 1000);
    snprintf(path, sizeof path, "%s/rank-0.lstrace", folder);
    FILE *const file = fopen(path, "ab");
    assert_non_null(file);
    write_clock(file, 3000000, INT64_C(5017075200) * 1000000000);
    write_clock(file, 4000000, -1);
    fclose(file);
    assert_ok(lsi_timeline_read(folder, &t));
    assert_int_equal(t->process[0]->n, 20);
    assert_int_equal(t->process[0]->wall_ns, 1000000 - 1001000);
    lsi_timeline_free(&t);
}

/* Refused, or a timeline: nothing else comes of it. */
static bool is_read(const char *data, size_t bytes, FILE *nowhere)
{
    lsi_timeline_process *p = NULL;
    const ls_status status = chunks_read(chunks_file(data, bytes), &p);
    if (status != LS_OK) {
        assert_int_equal(status, LS_ERR_FORMAT);
        return false;
    }
    for (size_t i = 1; i < p->n; i++)
        assert_true(lsi_timeline_order(&p->spans[i - 1], &p->spans[i]) <= 0);
    const lsi_timeline t = {.process = &p, .n = 1};
    assert_ok(lsi_timeline_chrome(&t, nowhere));
    lsi_timeline_process_free(&p);
    return true;
}

static void damage_is_refused_or_read(void **state)
{
    char *data, path[128];
    size_t bytes, good = 0;
    (void)state;
    write_rank(0, 1000);
    snprintf(path, sizeof path, "%s/rank-0.lstrace", folder);
    assert_ok(lsi_read_regular(path, 0, &data, &bytes));
    FILE *const nowhere = fopen("/dev/null", "w");
    assert_non_null(nowhere);
    assert_true(is_read(data, bytes, nowhere));
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
        good += is_read(data, bytes, nowhere);
        data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
    }
    assert_in_range(good, bytes, 7 * bytes);
    for (size_t n = 0; n < bytes; n++)
        (void)is_read(data, n, nowhere);
    fclose(nowhere);
    lsi_free(data);
}

static ls_status count_span(void *context, const lsi_timeline_span *span)
{
    size_t *const counts = context;
    counts[span->kind]++;
    return LS_OK;
}

/* From files as from memory, where only one chunk has the kind. */
static void spans_of_a_kind(void **state)
{
    lsi_timeline *t = NULL;
    (void)state;
    write_rank(0, 1000);
    write_rank(1, 2000);
    assert_ok(lsi_timeline_read(folder, &t));
    for (int loaded = 0; loaded < 2; loaded++) {
        size_t counts[LSI_SPAN_KINDS] = {0};
        assert_ok(lsi_timeline_scan(t->process[1], 1U << LSI_SPAN_TRANSFER,
                                    count_span, counts));
        assert_int_equal(counts[LSI_SPAN_TRANSFER], 10);
        assert_int_equal(counts[LSI_SPAN_GATHERING], 0);
        assert_ok(lsi_timeline_load(t->process[1]));
    }
    lsi_timeline_free(&t);
}

/* A trace that another run has begun to write over meanwhile. */
static void a_trace_that_changes_is_an_error(void **state)
{
    lsi_timeline *t = NULL;
    char path[128];
    (void)state;
    write_rank(0, 1000);
    assert_ok(lsi_timeline_read(folder, &t));
    snprintf(path, sizeof path, "%s/rank-0.lstrace", folder);
    FILE *const file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -100, SEEK_END), 0);
    for (int i = 0; i < 100; i++)
        fputc(0xff, file);
    fclose(file);
    assert_error(lsi_timeline_load(t->process[0]), LS_ERR_FORMAT,
                 "the file changed while it was read");
    assert_int_equal(truncate(path, 50), 0);
    assert_error(lsi_timeline_load(t->process[0]), LS_ERR_FORMAT,
                 "became shorter while it was read");
    lsi_timeline_free(&t);
}

static void clocks_are_compared_by_collectives(void **state)
{
    const int64_t apart = 123456789;
    lsi_timeline *t = NULL;
    (void)state;
    write_rank(0, 1000);
    write_rank(1, 1000 + apart);
    assert_ok(lsi_timeline_read(folder, &t));
    assert_int_equal(t->n, 2);
    assert_true(t->process[1]->aligned);
    const int64_t off = t->process[1]->offset + apart;
    /* 340 before and 40 after: the offset is between. */
    assert_true(t->process[1]->error <= (340 + 40) / 2);
    assert_true((off < 0 ? -off : off) <= t->process[1]->error);
    lsi_timeline_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(clocks_are_compared_by_collectives),
        TEST(collectives_are_joined_in_batches),
        TEST(the_time_of_day_may_jump),
        TEST(damage_is_refused_or_read),
        TEST(spans_of_a_kind),
        TEST(a_trace_that_changes_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

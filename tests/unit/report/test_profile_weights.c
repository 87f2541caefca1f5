/*
 * Waiting for weights of other nodes: how long, and why, from the traces of two
 * ranks that are written here.
 */
#include "testing.h"

#include "chunks.h"

#include <stdlib.h>

#include "base/file.h"
#include "observe/span_file.h"
#include "report/profile.h"
#include "report/timeline.h"

typedef struct span {
    int kind, name;
    int begin, end; /* ns */
    int bytes, work, id;
} span;

enum { STEP, FORWARD, BACKWARD, A, B, C, OTHER };

/* Rank 0, on node 0. Layer b comes late twice, and a is the first layer. */
static const span asker[] = {
    {LSI_SPAN_STEP, STEP, 0, 1000, 0, 0, 1},
    {LSI_SPAN_PHASE, FORWARD, 0, 500, 0, 0, 0},
    {LSI_SPAN_TRANSFER, OTHER, 1, 5, 8, 1, 1},
    {LSI_SPAN_GATHER, A, 11, 60, 100, 0, 0},
    {LSI_SPAN_AWAIT, A, 10, 60, 100, LSI_NEED_FIRST, 0},
    {LSI_SPAN_GATHER, B, 20, 200, 4000, 0, 0},
    {LSI_SPAN_AWAIT, B, 100, 200, 4000, LSI_NEED_ON, 0},
    {LSI_SPAN_WAIT, OTHER, 110, 190, 0, 0, 0},
    {LSI_SPAN_RELEASE, A, 210, 220, 100, 0, 0},
    {LSI_SPAN_PHASE, BACKWARD, 500, 900, 0, 0, 0},
    {LSI_SPAN_AWAIT, C, 600, 640, 300, LSI_NEED_NEW, 0},
    {LSI_SPAN_GATHER, C, 601, 640, 300, 0, 0},
    {LSI_SPAN_GATHER, B, 650, 720, 2000, 0, 0},
    {LSI_SPAN_AWAIT, B, 700, 720, 2000, LSI_NEED_ON, 0},
    {LSI_SPAN_AWAIT, A, 800, 801, 100, LSI_NEED_ON, 0},
};

/* Rank 1, which answers node 0, and once another node. */
static const span owner[] = {
    {LSI_SPAN_ANSWER, B, 130, 190, 3000, 0, 0},
    {LSI_SPAN_ANSWER, B, 150, 195, 1000, 0, 0},
    {LSI_SPAN_ANSWER, B, 660, 715, 2000, 0, 0},
    {LSI_SPAN_ANSWER, B, 710, 730, 2000, 0, 1},
};

/* ---- files --------------------------------------------------------------- */

static char folder[64];

static void put(chunks_bytes *b, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        b->data[b->n++] = (uint8_t)(v | 128);
    b->data[b->n++] = (uint8_t)v;
}

static void write_rank(int rank, const span *spans, size_t n)
{
    static const char *const names[] = {"step", "forward", "backward", "a",
                                        "b",    "c",       "call"};
    char path[128], head[128];
    chunks_bytes b = {.n = 0}, body = {.n = 0};
    snprintf(head, sizeof(head),
             "{\"lockstep_trace\":2,\"rank\":%d,\"size\":2,\"pid\":%d,"
             "\"host\":\"h\",\"boot\":\"b\",\"job\":\"j\"}",
             rank, rank + 1);
    chunks_put(&b, LSI_CHUNKS_MAGIC, LSI_CHUNKS_MAGIC_BYTES);
    chunks_put_chunk(&b, 'H', head, strlen(head));
    CHUNK(&b, 'C', 0, 0, 0);
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        char name[16];
        const int bytes =
            snprintf(name, sizeof(name), "%c%s", (int)i, names[i]);
        chunks_put_chunk(&b, 'N', name, (size_t)bytes);
    }
    put(&body, 0);
    put(&body, n);
    for (size_t i = 0, before = 0; i < n; before = (size_t)spans[i++].end) {
        const span *const s = &spans[i];
        const int64_t since = s->begin - (int64_t)before;
        put(&body, (uint64_t)s->kind | LSI_SPAN_HAS_BYTES | LSI_SPAN_HAS_WORK |
                       LSI_SPAN_HAS_ID);
        put(&body, (uint64_t)s->name);
        put(&body, ((uint64_t)since << 1) ^ (uint64_t)(since >> 63));
        put(&body, (uint64_t)(s->end - s->begin));
        put(&body, (uint64_t)s->bytes);
        put(&body, (uint64_t)s->work);
        put(&body, (uint64_t)s->id);
    }
    chunks_put_chunk(&b, 'E', body.data, body.n);
    CHUNK(&b, 'C', 0x80, 0x10, 0x80, 0x10, 0x80, 0x10);
    snprintf(path, sizeof(path), "%s/rank-%d.lstrace", folder, rank);
    FILE *const file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(b.data, 1, b.n, file), b.n);
    assert_int_equal(fclose(file), 0);
}

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lockstep-weights-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    write_rank(0, asker, TEST_COUNT(asker));
    write_rank(1, owner, TEST_COUNT(owner));
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/rank-%d.lstrace", folder, rank);
        (void)remove(path);
    }
    return rmdir(folder);
}

/* ---- tests --------------------------------------------------------------- */

static void check_times(const lsi_profile *p)
{
    const lsi_profile_weights *const w = &p->weights;
    const int f = lsi_profile_phase(p, "forward");
    const int b = lsi_profile_phase(p, "backward");
    assert_int_equal(w->waited[f], 50 + 100);
    assert_int_equal(w->waited[b], 40 + 20 + 1);
    assert_int_equal(p->waited[f], w->waited[f]); /* the wait inside is one */
    assert_int_equal(p->under_way, 4);
    assert_int_equal(p->exposed, 0);
    assert_int_equal(w->gathers.calls, 4);
    assert_int_equal(w->gathers.bytes, 100 + 4000 + 300 + 2000);
    assert_int_equal(w->gathers.ns, (200 - 11) + (640 - 601) + (720 - 650));
}

static void check_reasons(const lsi_profile_weights *w)
{
    assert_int_equal(w->because[LSI_WHY_FIRST], 50);
    assert_int_equal(w->because[LSI_WHY_NOT_AHEAD], 40 + 1);
    assert_int_equal(w->because[LSI_WHY_OWNER], 130 - 100);
    assert_int_equal(w->because[LSI_WHY_LINK], (200 - 130) + 20);
    assert_int_equal(w->late.calls, 2);
    assert_int_equal(w->late.bytes, 4000 + 2000);
    assert_int_equal(w->late.ns, (200 - 130) + (720 - 660));
    assert_int_equal(w->ahead, (100 - 20) + (700 - 650));
    assert_int_equal(w->n, 3);
    assert_string_equal(w->layer[0].name, "b");
    assert_int_equal(w->layer[0].waits, 2);
    assert_int_equal(w->layer[0].ns, 120);
    assert_int_equal(w->layer[0].because[LSI_WHY_OWNER], 30);
    assert_string_equal(w->layer[1].name, "a");
    assert_int_equal(w->layer[1].ns, 51);
    assert_string_equal(w->layer[2].name, "c");
}

static void reasons(void **state)
{
    lsi_timeline *timeline;
    lsi_profile *p;
    lsi_profile_answer answers[LSI_PROFILE_ANSWERS];
    const lsi_profile_filter filter = {.rank = 0, .warmup = 0};
    (void)state;
    assert_ok(lsi_timeline_read(folder, &timeline));
    assert_ok(lsi_profile_of(timeline, &filter, &p));
    check_times(p);
    check_reasons(&p->weights);
    lsi_profile_answer_all(p, answers);
    const char *text = NULL;
    for (int i = 0; i < LSI_PROFILE_ANSWERS; i++)
        if (strcmp(answers[i].key, "weights") == 0)
            text = answers[i].text;
    assert_non_null(text);
    assert_non_null(strstr(text, "0.000 ms in forward, 0.000 ms in backward"));
    assert_non_null(strstr(text, "Longest waits: b 0.000 ms, a "));
    lsi_profile_free(&p);
    lsi_timeline_free(&timeline);
}

/* Gathers and answers overlap others; releases and waits are in the row. */
static void timeline(void **state)
{
    static const char *const events[] = {
        "{\"ph\":\"b\",\"cat\":\"gather\",\"name\":\"gather\",\"pid\":0,",
        "\"ts\":0.650,\"args\":{\"layer\":\"b\",\"bytes\":2000,\"node\":0}}",
        "{\"ph\":\"e\",\"cat\":\"gather\",\"name\":\"gather\",\"pid\":0,",
        "{\"ph\":\"X\",\"cat\":\"release\",\"name\":\"release\",\"pid\":0,",
        "\"ts\":0.210,\"dur\":0.010,\"args\":{\"layer\":\"a\",\"bytes\":100,"
        "\"node\":0}}",
        "{\"ph\":\"X\",\"cat\":\"wait for weights\",\"name\":\"wait for "
        "weights\",\"pid\":0,",
        "{\"ph\":\"b\",\"cat\":\"answer\",\"name\":\"answer\",\"pid\":1,"};
    lsi_timeline *read;
    char *text = NULL;
    size_t bytes = 0;
    (void)state;
    assert_ok(lsi_timeline_read(folder, &read));
    FILE *const stream = open_memstream(&text, &bytes);
    assert_ok(lsi_timeline_chrome(read, stream));
    fclose(stream);
    for (size_t i = 0; i < TEST_COUNT(events); i++)
        if (strstr(text, events[i]) == NULL)
            fail_msg("%s is not in the timeline", events[i]);
    free(text);
    lsi_timeline_free(&read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reasons),
                                       cmocka_unit_test(timeline)};
    return cmocka_run_group_tests(tests, begin, end);
}

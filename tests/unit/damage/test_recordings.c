/*
 * Recordings of memory and of operations, and metrics, under damage. None has a
 * checksum: names, times and numbers may change. A recording of memory ends
 * with the number of its events; without that part it counts as cut off, and
 * the reader says so.
 */
#include "damage.h"

#include <stdio.h>
#include <stdlib.h>

#include "chunks.h"
#include "cli/commands/report/report.h"
#include "observe/memory_events.h"
#include "report/diagnosis.h"
#include "report/memory_profile.h"

/* rows.c refers to them. */
const lsi_section *const lsi_sections[] = {NULL};
const size_t lsi_sections_count = 0;

/* ---- memory -------------------------------------------------------------- */

/* All kinds of events; numbers of one byte, of two and of four. */
static chunks_bytes make_memory(void)
{
    static const char map[] = "7f00-7f10 r-xp 0 0 9 /bin/x";
    chunks_bytes b = chunks_begin("\"memory\":[]");
    CHUNK(&b, 'C', 10, 20, 30);
    CHUNK(&b, 'N', 0, 'b', 'l', 'o', 'c', 'k', ' ', '3');
    CHUNK(&b, 'N', 1, 'a', 'd', 'd');
    CHUNK(&b, 'M', LSI_MEMORY_INITIAL, 2, 0x80, 1, /* 64 bytes */
          LSI_MEMORY_KEPT_NOW, 0, 0x80, 0x20,      /* 4096 bytes */
          LSI_MEMORY_PATH, 0, 1, LSI_MEMORY_CALL, 0, 0x81, 0x7e,
          LSI_MEMORY_CALL, 2, 0x82, 0x7e, LSI_MEMORY_TAKEN, 1, 10, 0xe8, 7, 3,
          1, 1, 2, 1, 3, /* 1000 bytes */
          LSI_MEMORY_TAKEN_OF_POOL, 2, 20, 0x80, 4, 4, 0, 0, 0, 1, 0);
    CHUNK(&b, 'M', LSI_MEMORY_OPERATION, 1, 2, 1, 2, LSI_MEMORY_COUNTED, 25, 5,
          0xf8, 10, /* 700 bytes */
          LSI_MEMORY_GIVEN, 1, 30, LSI_MEMORY_REFUSED, 40, 0x9f, 0x8d, 6);
    chunks_put_chunk(&b, 'L', map, sizeof map - 1);
    CHUNK(&b, 'Z', 0, 6);
    return b;
}

static ls_status read_memory(const char *path, damage_seen *seen)
{
    lsi_memory_file *file = NULL;
    lsi_memory_row *rows = NULL;
    size_t n = 0;
    char text[64];
    const ls_status status = lsi_memory_read(path, &file);
    if (status != LS_OK)
        return status;
    for (int key = LSI_MEMORY_BY_LAYER; key <= LSI_MEMORY_BY_SIZE; key++) {
        assert_ok(lsi_memory_rows(file, (lsi_memory_key)key,
                                  file->live_peak_time, &rows, &n));
        for (size_t i = 0; i < n; i++)
            lsi_memory_row_text(file, (lsi_memory_key)key, &rows[i], text,
                                sizeof text);
        free(rows);
    }
    seen->cut_off = !file->process->whole;
    snprintf(seen->shape, sizeof seen->shape, "%zu blocks", file->n_blocks);
    lsi_memory_file_free(&file);
    return LS_OK;
}

static void memory(void **state)
{
    (void)state;
    const chunks_bytes b = make_memory();
    const damage_case c = {.format = "recording of memory",
                           .path = damage_path("rank-0.lsmem"),
                           .data = b.data,
                           .bytes = b.n,
                           .read = read_memory,
                           .flips = {.usual = DAMAGE_SHAPE},
                           .cuts = {.usual = DAMAGE_SHAPE},
                           .junk = DAMAGE_SHAPE,
                           .zeros = DAMAGE_SHAPE};
    damage_check(&c);
}

/* ---- operations ---------------------------------------------------------- */

#define CALL                                                                   \
    "\"call\":\"all_reduce of 8 f32\",\"operation\":\"all_reduce\","           \
    "\"count\":8,\"dtype\":\"f32\",\"redop\":\"sum\",\"root\":0,"              \
    "\"began_ns\":90,\"ended_ns\":91,"

static const char record_text[] =
    "{\"lockstep_record\":1,\"job\":\"j\",\"group\":0,\"rank\":1,\"size\":2,"
    "\"host\":\"h\",\"pid\":9,\"reason\":\"failure\",\"written_ns\":10000,"
    "\"wall_ns\":1000,\"completed\":1,\"failure\":{\"kind\":"
    "\"LS_ERR_MISMATCH\",\"sequence\":2,\"field\":\"count\",\"sides\":"
    "[{\"rank\":0,\"call\":\"barrier\"},{\"rank\":1,\"call\":\"x\"}]},"
    "\"ranks\":[{\"presence\":\"alive\",\"pid\":8,\"completed\":1,"
    "\"arrived\":2,\"waits_for\":1},{\"presence\":\"dead\"}],"
    "\"collectives\":[{\"sequence\":1," CALL "\"status\":\"done\"},"
    "{\"sequence\":2," CALL "\"status\":\"failed\"}],"
    "\"messages\":[{\"sequence\":1,\"peer\":0," CALL
    "\"status\":\"in flight\"}]}\n";

static ls_status read_record(const char *path, damage_seen *seen)
{
    static lsi_diagnosis diagnosis;
    lsi_trace *t = NULL;
    const ls_status status = lsi_trace_read(path, &t);
    if (status != LS_OK)
        return status;
    lsi_diagnose((const lsi_trace *const *)&t, 1, 1.0, &diagnosis);
    assert_in_range(diagnosis.n_findings, 0, LSI_FINDINGS);
    snprintf(seen->shape, sizeof seen->shape,
             "%d ranks, %zu collectives, %zu messages", t->size,
             t->collectives.n, t->messages.n);
    lsi_trace_free(&t);
    return LS_OK;
}

/* Its last byte is the end of the line. */
static void record(void **state)
{
    (void)state;
    const size_t n = sizeof record_text - 1;
    const damage_range last[] = {{n - 1, n, DAMAGE_SHAPE}};
    const damage_case c = {.format = "recording of operations",
                           .path = damage_path("rank-1.json"),
                           .data = (const uint8_t *)record_text,
                           .bytes = n,
                           .read = read_record,
                           .flips = {.usual = DAMAGE_SHAPE},
                           .cuts = {DAMAGE_REFUSED, last, 1}};
    damage_check(&c);
}

/* ---- metrics ------------------------------------------------------------- */

static const char metrics_text[] =
    "{\"event\":\"start\",\"model\":\"a small one\"}\n"
    "{\"event\":\"step\",\"step\":1,\"loss\":2.5}\n"
    "{\"event\":\"step\",\"step\":2,\"loss\":1.25e-3}\n";

static ls_status read_metrics(const char *path, damage_seen *seen)
{
    json_t *file = NULL;
    const ls_status status = lsi_rows_read(path, LSI_ROWS_METRICS, &file);
    if (status != LS_OK)
        return status;
    snprintf(seen->shape, sizeof seen->shape, "%zu rows",
             json_array_size(json_object_get(file, "rows")));
    json_decref(file);
    return LS_OK;
}

/* A last line without its end is one that is still being written. */
static void metrics(void **state)
{
    (void)state;
    const size_t n = sizeof metrics_text - 1;
    const damage_range last[] = {{n - 1, n, DAMAGE_ANY}};
    const damage_case c = {.format = "metrics",
                           .path = damage_path("metrics.jsonl"),
                           .data = (const uint8_t *)metrics_text,
                           .bytes = n,
                           .read = read_metrics,
                           .flips = {DAMAGE_SHAPE, last, 1},
                           .cuts = {.usual = DAMAGE_ANY},
                           .junk = DAMAGE_SHAPE};
    damage_check(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory),
        cmocka_unit_test(record),
        cmocka_unit_test(metrics),
    };
    return cmocka_run_group_tests(tests, damage_begin, damage_end);
}

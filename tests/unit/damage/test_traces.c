/*
 * A trace under damage. It has no checksum: names and times may change. Without
 * its last part it counts as cut off, and the reader says so.
 */
#include "damage.h"

#include <stdio.h>
#include <stdlib.h>

#include "chunks.h"
#include "observe/span_file.h"
#include "report/timeline.h"

/* Two threads, two names, four spans; numbers of one byte and of two. */
static chunks_bytes make_trace(void)
{
    assert_int_equal(LSI_SPAN_KINDS, 14);
    chunks_bytes b =
        chunks_begin("\"kinds\":[{},{},{},{},{},{},{},{},{},{},{},{},{},{}]");
    CHUNK(&b, 'C', 10, 20, 30);
    CHUNK(&b, 'N', 0, 's', 't', 'e', 'p');
    CHUNK(&b, 'N', 1, 'a', 'd', 'd');
    CHUNK(&b, 'T', 0, 'm', 'a', 'i', 'n');
    CHUNK(&b, 'T', 1, 'o', 'n', 'e');
    CHUNK(&b, 'E', 0, 2, LSI_SPAN_STEP | LSI_SPAN_HAS_ID, 0, 40, 100, 1,
          LSI_SPAN_KERNEL | LSI_SPAN_HAS_BYTES | LSI_SPAN_HAS_WORK, 1, 3, 10,
          0x80, 2, 64);
    CHUNK(&b, 'E', 1, 2, LSI_SPAN_RANGE, 1, 60, 5, LSI_SPAN_WAIT, 0, 2, 9);
    CHUNK(&b, 'C', 0x80, 4, 0x90, 4, 0xa0, 4);
    CHUNK(&b, 'Z', 4, 0);
    return b;
}

static ls_status read_trace(const char *path, damage_seen *seen)
{
    lsi_timeline_process *p = NULL;
    const ls_status status = chunks_read(path, &p);
    if (status != LS_OK)
        return status;
    for (size_t i = 0; i < p->n; i++) {
        assert_true(p->spans[i].begin <= p->spans[i].end);
        assert_in_range(p->spans[i].kind, 0, LSI_SPAN_KINDS - 1);
        assert_non_null(lsi_timeline_name(p, &p->spans[i]));
    }
    seen->cut_off = !p->whole;
    snprintf(seen->shape, sizeof seen->shape, "%zu spans", p->n);
    lsi_timeline_process_free(&p);
    return LS_OK;
}

static void trace(void **state)
{
    (void)state;
    const chunks_bytes b = make_trace();
    const damage_case c = {.format = "trace",
                           .path = damage_path("rank-0.lstrace"),
                           .data = b.data,
                           .bytes = b.n,
                           .read = read_trace,
                           .flips = {.usual = DAMAGE_SHAPE},
                           .cuts = {.usual = DAMAGE_SHAPE},
                           .junk = DAMAGE_SHAPE};
    damage_check(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(trace)};
    return cmocka_run_group_tests(tests, damage_begin, damage_end);
}

/*
 * The timeline of one attention block: the operations of the forward pass
 * inside the last range called "attention" that rank 0 has traced, as a picture
 * and as a table.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands/report/report.h"
#include "report/timeline.h"

enum { MOST_PARTS = 24, NAME_BYTES = 80 };

static const char *const range_name = "attention";

/* An operation, and its row in the picture. */
typedef struct part {
    const char *name; /* owned by the timeline */
    char label[NAME_BYTES];
    int64_t begin, end;
} part;

typedef struct block {
    const char *layer; /* name of the enclosing range, or "" */
    int64_t begin, end;
    part parts[MOST_PARTS];
    size_t n;
} block;

static bool is_inside(const lsi_timeline_span *inner,
                      const lsi_timeline_span *outer)
{
    return inner->thread == outer->thread && inner->begin >= outer->begin &&
           inner->end <= outer->end;
}

/* The last range called "attention"; NULL: not found. */
static const lsi_timeline_span *find_range(const lsi_timeline_process *p)
{
    for (size_t i = p->n; i-- > 0;) {
        if (p->spans[i].kind == LSI_SPAN_RANGE &&
            strcmp(lsi_timeline_name(p, &p->spans[i]), range_name) == 0)
            return &p->spans[i];
    }
    return NULL;
}

static const char *layer_of(const lsi_timeline_process *p,
                            const lsi_timeline_span *range)
{
    for (const lsi_timeline_span *s = range; s-- > p->spans;) {
        if (s->kind == LSI_SPAN_RANGE && is_inside(range, s))
            return lsi_timeline_name(p, s);
    }
    return "";
}

/* Operations in others are left out; false if there are none. */
static bool collect(const lsi_timeline_process *p, block *b)
{
    const lsi_timeline_span *const range = find_range(p);
    if (range == NULL)
        return false;
    b->layer = layer_of(p, range);
    b->begin = range->begin;
    b->end = range->end;
    int64_t last = range->begin;
    for (const lsi_timeline_span *s = range + 1;
         s < p->spans + p->n && s->begin < range->end && b->n < MOST_PARTS;
         s++) {
        if (s->kind != LSI_SPAN_OPERATION || !is_inside(s, range) ||
            s->begin < last)
            continue;
        part *const to = &b->parts[b->n++];
        to->name = lsi_timeline_name(p, s);
        to->begin = s->begin;
        to->end = last = s->end;
        snprintf(to->label, sizeof(to->label), "%zu %.70s", b->n, to->name);
    }
    return b->n > 0;
}

/* A colour for each kind of operation, a row for each operation. */
static void draw(lsi_study *r, const block *b)
{
    const char *rows[MOST_PARTS];
    lsi_study_plot p = lsi_study_plot_new(
        "attention-block",
        "The operations of one attention block in a forward pass");
    for (size_t i = 0; i < b->n; i++) {
        const part *const one = &b->parts[i];
        size_t first = 0;
        rows[i] = one->label;
        while (strcmp(b->parts[first].name, one->name) != 0)
            first++;
        if (first < i)
            continue;
        lsi_study_series *const s =
            lsi_study_plot_series(&p, LSI_PLOT_SPANS, "%s", one->name);
        for (size_t k = i; k < b->n; k++) {
            if (strcmp(b->parts[k].name, one->name) != 0)
                continue;
            s->end[s->n] = (double)(b->parts[k].end - b->begin) * 1e-6;
            lsi_study_point(s, (double)(b->parts[k].begin - b->begin) * 1e-6,
                            (double)k);
        }
    }
    p.plot.height = 120 + 26 * (int)b->n;
    p.plot.x = (lsi_plot_axis){.label = "time since the block began (ms)",
                               .from_zero = true};
    p.plot.y = (lsi_plot_axis){
        .label = "operation", .categories = rows, .n_categories = b->n};
    lsi_study_draw(r, &p);
}

static void put_table(lsi_study *r, const block *b)
{
    static const lsi_study_column columns[] = {
        {"Operation", "operation", 0, 0},
        {"Start (ms)", "start", 3, 1e-6},
        {"Duration (ms)", "duration", 3, 1e-6},
        {"Share (%)", "share", 1, 0},
    };
    const double all = (double)(b->end - b->begin);
    double between = all;
    json_t *const rows = json_array();
    for (size_t i = 0; i < b->n; i++) {
        const part *const one = &b->parts[i];
        const double duration = (double)(one->end - one->begin);
        between -= duration;
        json_array_append_new(
            rows,
            json_pack("{s:s, s:f, s:f, s:f}", "operation", one->label, "start",
                      (double)(one->begin - b->begin), "duration", duration,
                      "share", all > 0 ? 100 * duration / all : 0));
    }
    json_array_append_new(rows, json_pack("{s:s, s:f, s:f}", "operation",
                                          "(between operations)", "duration",
                                          between, "share",
                                          all > 0 ? 100 * between / all : 0));
    LSI_STUDY_TABLE(r, rows, columns);
    json_decref(rows);
}

static void write_block(lsi_study *r, const block *b)
{
    lsi_document_heading(r->document, 3, "One attention block");
    lsi_document_paragraph(
        r->document,
        "In the last step on rank 0, the forward pass of attention in %s runs "
        "%zu operations in %.3f ms. The `linear` operations ahead of "
        "`attention` compute queries, keys and values. The `linear` operation "
        "after `attention` computes the output.",
        b->layer[0] != '\0' ? b->layer : "the last block", b->n,
        (double)(b->end - b->begin) * 1e-6);
    put_table(r, b);
    draw(r, b);
}

void lsi_study_attention_block(lsi_study *report, const char *folder)
{
    lsi_timeline *timeline = NULL;
    block *const b = calloc(1, sizeof(*b));
    if (b != NULL && lsi_timeline_read(folder, &timeline) == LS_OK) {
        if (timeline->n > 0 &&
            lsi_timeline_load(timeline->process[0]) == LS_OK &&
            collect(timeline->process[0], b))
            write_block(report, b);
    }
    lsi_timeline_free(&timeline);
    free(b);
}

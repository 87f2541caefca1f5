/* Reads all files of a folder and aligns their clocks. */
#include "report/timeline_private.h"

#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/grow.h"
#include "report/folder.h"

/* ---- reading ------------------------------------------------------------- */

/* "rank-0.12.lstrace": of the trace "rank-0", the 13th file. */
typedef struct trace_file {
    const char *path;
    size_t stem; /* length of the path up to there */
    long number;
} trace_file;

static trace_file split_name(const char *path)
{
    const size_t whole = strlen(path) - strlen(".lstrace");
    size_t stem = whole;
    while (stem > 0 && path[stem - 1] >= '0' && path[stem - 1] <= '9')
        stem--;
    if (stem == whole || stem < 2 || path[stem - 1] != '.' ||
        path[stem - 2] == '/')
        return (trace_file){path, whole, 0};
    return (trace_file){path, stem - 1, strtol(path + stem, NULL, 10)};
}

static int by_trace(const void *a, const void *b)
{
    const trace_file *x = a, *y = b;
    const size_t least = x->stem < y->stem ? x->stem : y->stem;
    const int order = memcmp(x->path, y->path, least);
    if (order != 0 || x->stem != y->stem)
        return order != 0 ? order : (x->stem > y->stem) - (x->stem < y->stem);
    return (x->number > y->number) - (x->number < y->number);
}

static bool same_trace(const trace_file *a, const trace_file *b)
{
    return a->stem == b->stem && memcmp(a->path, b->path, a->stem) == 0;
}

/* Files of one trace are consecutive. */
static ls_status read_traces(const trace_file *files, size_t n, lsi_timeline *t)
{
    for (size_t i = 0, next; i < n; i = next) {
        lsi_timeline_process **const process = &t->process[t->n];
        for (next = i; next < n && same_trace(&files[i], &files[next]); next++)
            LS_TRY(lsi_timeline_add_file(files[next].path, process));
        t->n++;
        LS_TRY(lsi_timeline_check(*process));
    }
    return LS_OK;
}

static ls_status read_found(const glob_t *found, lsi_timeline *t)
{
    const size_t n = found->gl_pathc;
    trace_file *const files = calloc(n, sizeof(*files));
    t->process = calloc(n, sizeof(lsi_timeline_process *));
    ls_status status = LS_OK;
    if (files == NULL || t->process == NULL) {
        status = lsi_fail(LS_ERR_MEMORY, "not enough memory for a timeline");
    } else {
        for (size_t i = 0; i < n; i++)
            files[i] = split_name(found->gl_pathv[i]);
        qsort(files, n, sizeof(*files), by_trace);
        status = read_traces(files, n, t);
    }
    free(files);
    return status;
}

static ls_status read_files(const char *folder, lsi_timeline *t)
{
    glob_t found = {0};
    struct stat about;
    if (stat(folder, &about) != 0)
        return lsi_fail_errno(LS_ERR_NOT_FOUND, "cannot read the folder '%s'",
                              folder);
    if (!S_ISDIR(about.st_mode))
        return lsi_fail(
            LS_ERR_NOT_FOUND,
            "'%s' is not a folder; give the folder that --trace wrote", folder);
    LS_TRY(lsi_find_files(folder, "*.lstrace", &found));
    if (found.gl_pathc == 0)
        return lsi_fail(LS_ERR_NOT_FOUND,
                        "'%s' contains no traces (*.lstrace); to write traces, "
                        "use --trace or LOCKSTEP_TRACE",
                        folder);
    const ls_status status = read_found(&found, t);
    globfree(&found);
    return status;
}

static int by_rank(const void *a, const void *b)
{
    const lsi_timeline_process *x = *(lsi_timeline_process *const *)a;
    const lsi_timeline_process *y = *(lsi_timeline_process *const *)b;
    if (x->rank != y->rank)
        return (x->rank > y->rank) - (x->rank < y->rank);
    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Checks the processes that were ranks. */
static ls_status check_run(const char *folder, const lsi_timeline *t)
{
    const lsi_timeline_process *first = NULL;
    for (size_t i = 0; i < t->n; i++) {
        const lsi_timeline_process *const p = t->process[i];
        if (p->rank < 0)
            continue;
        if (first != NULL && strcmp(p->job, first->job) != 0)
            return lsi_fail(
                LS_ERR_ARGUMENT,
                "'%s' contains traces of two jobs: rank %d (job %s) and rank "
                "%d (job %s); keep the files of only one job",
                folder, first->rank, first->job, p->rank, p->job);
        first = first == NULL ? p : first;
    }
    return LS_OK;
}

/* ---- one clock ----------------------------------------------------------- */

/*
 * A collective on one machine: when its last rank began, and when its first
 * rank was done.
 */
typedef struct meeting {
    uint64_t group, sequence;
    int64_t begun, met;
} meeting;

typedef struct meetings {
    meeting *all;
    size_t n, room;
} meetings;

static int by_sequence(const void *a, const void *b)
{
    const meeting *x = a, *y = b;
    if (x->group != y->group)
        return (x->group > y->group) - (x->group < y->group);
    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

/* Merges the entries of several ranks into one. */
static void join(meetings *m)
{
    size_t n = 0;
    if (m->n > 0)
        qsort(m->all, m->n, sizeof(meeting), by_sequence);
    for (size_t i = 0; i < m->n; i++) {
        meeting *const last = n > 0 ? &m->all[n - 1] : NULL;
        const meeting *const next = &m->all[i];
        if (last == NULL || by_sequence(last, next) != 0) {
            m->all[n++] = *next;
            continue;
        }
        last->begun = next->begun > last->begun ? next->begun : last->begun;
        last->met = next->met < last->met ? next->met : last->met;
    }
    m->n = n;
}

static bool is_of(const lsi_timeline_process *p, const char *boot)
{
    return p->rank >= 0 && strcmp(p->boot, boot) == 0;
}

static ls_status add_meeting(void *context, const lsi_timeline_span *s)
{
    meetings *const m = context;
    if (!lsi_grow_array(&m->all, m->n, &m->room, sizeof(meeting)))
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for a timeline");
    m->all[m->n++] = (meeting){s->work, s->id, s->begin, s->end};
    return LS_OK;
}

/* out->all is the caller's, also on failure. */
static ls_status meetings_of(const lsi_timeline *t, const char *boot,
                             meetings *out)
{
    *out = (meetings){0};
    for (size_t i = 0; i < t->n; i++)
        if (is_of(t->process[i], boot))
            LS_TRY(lsi_timeline_scan(t->process[i], 1U << LSI_SPAN_GATHERING,
                                     add_meeting, out));
    join(out);
    return LS_OK;
}

/* How far b's clock is behind a's; false without a common collective. */
static bool compare(const meetings *a, const meetings *b, int64_t *offset,
                    int64_t *error)
{
    int64_t low = INT64_MIN, high = INT64_MAX;
    for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
        const int order = by_sequence(&a->all[i], &b->all[j]);
        if (order == 0) {
            const int64_t least = a->all[i].begun - b->all[j].met;
            const int64_t most = a->all[i].met - b->all[j].begun;
            low = least > low ? least : low;
            high = most < high ? most : high;
        }
        i += order <= 0;
        j += order >= 0;
    }
    if (low == INT64_MIN)
        return false;
    *offset = low + (high - low) / 2;
    /* The bounds cross if the clocks have drifted apart meanwhile. */
    *error = (high > low ? high - low : low - high) / 2;
    return true;
}

/* Without a common collective, the machines' times of day are compared. */
static ls_status align_machine(const lsi_timeline *t, const meetings *first,
                               const char *boot)
{
    meetings own;
    int64_t offset = 0, error = 0;
    const ls_status status = meetings_of(t, boot, &own);
    const bool met = status == LS_OK && compare(first, &own, &offset, &error);
    free(own.all);
    LS_TRY(status);
    for (size_t i = 0; i < t->n; i++) {
        lsi_timeline_process *const p = t->process[i];
        if (p->aligned || strcmp(p->boot, boot) != 0)
            continue;
        p->error = error;
        p->aligned = met;
        p->offset = met ? offset : p->wall_ns - t->process[0]->wall_ns;
    }
    return LS_OK;
}

static ls_status align(const lsi_timeline *t)
{
    meetings first = {0};
    const char *const boot = t->process[0]->boot;
    bool same = true;
    for (size_t i = 0; i < t->n; i++) {
        t->process[i]->aligned = strcmp(t->process[i]->boot, boot) == 0;
        same = same && t->process[i]->aligned;
    }
    ls_status status = same ? LS_OK : meetings_of(t, boot, &first);
    for (size_t i = 0; i < t->n && status == LS_OK; i++)
        if (!t->process[i]->aligned && t->process[i]->offset == 0)
            status = align_machine(t, &first, t->process[i]->boot);
    free(first.all);
    return status;
}

static int64_t first_begin(const lsi_timeline *t)
{
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < t->n; i++) {
        const int64_t begin = lsi_timeline_first(t->process[i]);
        first = begin < first ? begin : first;
    }
    return first == INT64_MAX ? 0 : first;
}

/* ---- all of it ----------------------------------------------------------- */

ls_status lsi_timeline_read(const char *folder, lsi_timeline **out)
{
    lsi_timeline *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for a timeline");
    ls_status status = read_files(folder, t);
    if (status == LS_OK) {
        qsort(t->process, t->n, sizeof(t->process[0]), by_rank);
        status = check_run(folder, t);
    }
    if (status == LS_OK)
        status = align(t);
    if (status != LS_OK) {
        lsi_timeline_free(&t);
        return status;
    }
    t->begin = first_begin(t);
    *out = t;
    return LS_OK;
}

static void free_texts(char **texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
}

void lsi_timeline_process_free(lsi_timeline_process **process)
{
    if (process == NULL || *process == NULL)
        return;
    lsi_timeline_process *const p = *process;
    *process = NULL;
    free_texts(p->names, p->n_names);
    free_texts(p->threads, p->n_threads);
    if (p->source != NULL) {
        free_texts(p->source->files, p->source->n_files);
        free(p->source->chunks);
        free(p->source->clocks);
        free(p->source);
    }
    lsi_memory_forget(p->memory);
    free(p->spans);
    free(p->version);
    free(p->isa);
    free(p->host);
    free(p->boot);
    free(p->job);
    free(p);
}

const char *lsi_timeline_name(const lsi_timeline_process *process,
                              const lsi_timeline_span *span)
{
    const char *const name =
        span->name < process->n_names ? process->names[span->name] : NULL;
    return name != NULL ? name : "unknown";
}

void lsi_timeline_free(lsi_timeline **timeline)
{
    if (timeline == NULL || *timeline == NULL)
        return;
    for (size_t i = 0; i < (*timeline)->n; i++)
        lsi_timeline_process_free(&(*timeline)->process[i]);
    free((*timeline)->process);
    free(*timeline);
    *timeline = NULL;
}

static void warn_of_missing(const lsi_timeline_process *p, FILE *stream)
{
    static const char *const why = "the oldest parts were deleted because of "
                                   "the size limit (LOCKSTEP_TRACE_LIMIT)";
    if (p->first_missing > 0)
        fprintf(stream,
                "lockstep: the trace of rank %d (pid %d) lacks steps %" PRIu64
                " to %" PRIu64 ": %s\n",
                p->rank, p->pid, p->first_missing, p->last_missing, why);
    else if (p->missing > 0)
        fprintf(stream,
                "lockstep: the trace of rank %d (pid %d) lacks %" PRIu64
                " spans: %s\n",
                p->rank, p->pid, p->missing, why);
    if (p->lost > 0)
        fprintf(stream,
                "lockstep: the trace of rank %d (pid %d) lacks %" PRIu64
                " spans: one of its files is missing or cut off\n",
                p->rank, p->pid, p->lost);
}

void lsi_timeline_warn(const lsi_timeline *timeline, FILE *stream)
{
    const lsi_timeline_process *const first = timeline->process[0];
    for (size_t i = 0; i < timeline->n; i++) {
        const lsi_timeline_process *const p = timeline->process[i];
        warn_of_missing(p, stream);
        if (!p->whole)
            fprintf(stream,
                    "lockstep: the trace of rank %d (pid %d) is incomplete: "
                    "its process was killed, or is still running\n",
                    p->rank, p->pid);
        if (!p->aligned)
            fprintf(stream,
                    "lockstep: the times of rank %d come from the system clock "
                    "of host '%s', with an unknown error: the rank shares no "
                    "collective with host '%s'\n",
                    p->rank, p->host, first->host);
        else if (p->error != 0)
            fprintf(stream,
                    "lockstep: the times of rank %d on host '%s' have an error "
                    "of up to %.1f us\n",
                    p->rank, p->host, (double)p->error * 1e-3);
    }
}

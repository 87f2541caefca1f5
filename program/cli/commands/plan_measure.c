#include "cli/commands/plan_measure.h"

#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/error.h"
#include "base/program.h"
#include "cli/commands/report/report.h"
#include "launch/launch.h"

enum { MOST_WORDS = 40 };
enum {
    LITTLE = 8192,
    LEAST_MUCH = 1 << 20,
    MANY_RUNS_MUCH = 16 << 20,
    MOST_MUCH = 256 << 20
};

static const double grace_seconds = 3;

/* ---- a bench ------------------------------------------------------------- */

/* Fills in argv[0], and drops the output. */
static ls_status launch(char **argv, int ranks, int *exit_status)
{
    char path[LSI_PROGRAM_BYTES];
    static const lsi_rank_output nowhere[LSI_LAUNCH_MAX_RANKS];
    LS_TRY(lsi_program_path(path));
    argv[0] = path;
    const lsi_launch_config config = {
        .ranks = {.argv = argv,
                  .n = ranks,
                  .bind = lsi_binding_parse("cpu"),
                  .no_input = true},
        .output = {.of_ranks = nowhere, .quiet_exit = true},
        .limits.grace = grace_seconds,
    };
    return lsi_launch(&config, exit_status);
}

static ls_status run_to(const char *path, const char *const *words, int ranks,
                        json_t **out)
{
    char *argv[MOST_WORDS] = {NULL};
    char copies[MOST_WORDS][64], json[4200];
    int n = 1, exit_status;
    for (; words[n - 1] != NULL; n++) {
        snprintf(copies[n], sizeof(copies[n]), "%s", words[n - 1]);
        argv[n] = copies[n];
    }
    snprintf(json, sizeof(json), "--json=%s", path);
    argv[n] = json;
    LS_TRY(launch(argv, ranks, &exit_status));
    if (exit_status != 0)
        return lsi_fail(LS_ERR_STATE,
                        "the measurement `lockstep %s %s` on %d ranks failed "
                        "with exit status %d",
                        words[0], words[1], ranks, exit_status);
    return lsi_rows_read(path, LSI_ROWS_JSON, out);
}

/* The document that the bench writes; NULL ends the words. */
static ls_status run_bench(const char *const *words, int ranks, json_t **out)
{
    char folder[4096], path[4096 + sizeof("/rows.json")];
    const char *const place = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/lockstep-plan-XXXXXX",
             place != NULL ? place : "/tmp");
    if (mkdtemp(folder) == NULL)
        return lsi_fail_errno(LS_ERR_IO, "cannot create the folder '%s'",
                              folder);
    snprintf(path, sizeof(path), "%s/rows.json", folder);
    const ls_status status = run_to(path, words, ranks, out);
    (void)unlink(path);
    (void)rmdir(folder);
    return status;
}

/* A number of a row; "a.b" is b of a. NAN: the row lacks it. */
static double number(const json_t *document, size_t row, const char *name)
{
    const json_t *const rows = json_object_get(document, "rows");
    return lsi_number_at(json_array_get(rows, row), name);
}

static ls_status no_room(const lsi_plan_case *c)
{
    return lsi_fail(LS_ERR_MEMORY,
                    "not enough memory to measure %s on %d rank%s; leave "
                    "--calibrate out, or use a smaller --batch-size",
                    c->model, c->ranks, c->ranks == 1 ? "" : "s");
}

/* ---- what is measured ---------------------------------------------------- */

ls_status lsi_plan_measure_meeting(int ranks, double bytes, double *meeting,
                                   double *memory)
{
    char sizes[64];
    json_t *json;
    const double much = fmin(fmax(bytes, LEAST_MUCH), MOST_MUCH);
    /* Short runs are many: the least of them must not be one that waited. */
    const char *const runs = much > MANY_RUNS_MUCH ? "15" : "150";
    snprintf(sizes, sizeof(sizes), "%d,%.0f", LITTLE, much);
    const char *const words[] = {
        "bench",    "all-reduce", "--sizes",      sizes,     "--buffers",
        "shared",   "--place",    "in",           "--check", "0",
        "--warmup", "3",          "--iterations", runs,      NULL};
    LS_TRY(run_bench(words, ranks, &json));
    const double first = 1e-6 * number(json, 0, "time_us.min");
    const double second = 1e-6 * number(json, 1, "time_us.min");
    json_decref(json);
    if (!(first > 0 && second > first))
        return lsi_fail(
            LS_ERR_STATE,
            "cannot measure an all-reduce: %.0f bytes took %g s, but %d bytes "
            "took %g s. The machine is too busy; try again when it is idle",
            much, second, LITTLE, first);
    *meeting = first;
    *memory = 2.0 * (much - LITTLE) / (second - first);
    return LS_OK;
}

enum { PAGE_BYTES = 4096, PAGES = 4096, ALL_BYTES = PAGES * PAGE_BYTES };
enum { PAGES_TRIES = 5 };

/* CPU time of this thread, independent of other threads. */
static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double time_pages(int fd, char *writer, const char *reader)
{
    unsigned sum = 0;
    const double begin = cpu_seconds();
    for (size_t i = 0; i < ALL_BYTES; i += PAGE_BYTES)
        writer[i] = 1;
    for (size_t i = 0; i < ALL_BYTES; i += PAGE_BYTES)
        sum += (unsigned char)((const volatile char *)reader)[i];
    const bool given_back =
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                  ALL_BYTES) == 0;
    const double seconds = cpu_seconds() - begin;
    return given_back && sum == PAGES ? seconds : INFINITY;
}

static double time_mapped(int fd)
{
    double least = INFINITY;
    void *const writer =
        mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    void *const reader = mmap(NULL, ALL_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    if (writer != MAP_FAILED && reader != MAP_FAILED)
        for (int i = 0; i < PAGES_TRIES; i++)
            least = fmin(least, time_pages(fd, writer, reader));
    if (writer != MAP_FAILED)
        munmap(writer, ALL_BYTES);
    if (reader != MAP_FAILED)
        munmap(reader, ALL_BYTES);
    return least;
}

ls_status lsi_plan_measure_page(double *seconds)
{
    const int fd = memfd_create("lockstep-pages", MFD_CLOEXEC);
    double all = INFINITY;
    if (fd >= 0 && ftruncate(fd, ALL_BYTES) == 0)
        all = time_mapped(fd);
    if (fd >= 0)
        close(fd);
    if (isinf(all))
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot measure the time for mapping a page, in "
                              "%d MiB of shared memory",
                              ALL_BYTES >> 20);
    *seconds = all / PAGES;
    return LS_OK;
}

/* The words of a command line. */
typedef struct line {
    const char *words[MOST_WORDS];
    char texts[MOST_WORDS][24]; /* of numbers */
    size_t n;
} line;

static void add_word(line *l, const char *flag, const char *value)
{
    l->words[l->n++] = flag;
    l->words[l->n++] = value;
}

/* Nothing of a flag that is 0. */
static void add_number(line *l, const char *flag, int64_t value)
{
    char *const text = l->texts[l->n];
    if (value == 0)
        return;
    snprintf(text, sizeof(l->texts[0]), "%" PRId64, value);
    add_word(l, flag, text);
}

/* The row of one strategy. */
static ls_status run_steps(const lsi_plan_case *c, const char *strategy,
                           const char *bucket_mb, json_t **out)
{
    line l = {.n = 0};
    add_word(&l, "bench", "ddp");
    add_word(&l, "--size", c->model);
    add_number(&l, "--layers", c->layers);
    add_number(&l, "--d-model", c->d_model);
    add_number(&l, "--heads", c->heads);
    add_number(&l, "--d-ff", c->d_ff);
    add_number(&l, "--vocab-size", c->vocabulary);
    add_word(&l, "--dtype", c->dtype);
    add_number(&l, "--batch-size", c->batch);
    add_number(&l, "--context", c->context);
    add_word(&l, "--strategy", strategy);
    add_word(&l, "--warmup", "2");
    add_word(&l, "--iterations", "12");
    add_word(&l, "--bucket-mb", bucket_mb != NULL ? bucket_mb : "1");
    return run_bench(l.words, c->ranks, out);
}

/* The shortest step without its all-reduce, in parts as they are on average. */
static lsi_plan_compute compute_of(json_t *json, double reduces)
{
    const double forward = number(json, 0, "forward_s");
    const double backward = number(json, 0, "backward_s");
    const double optimizer = number(json, 0, "optimizer_s");
    const double whole = forward + backward + optimizer;
    const double unit = (number(json, 0, "step_time_min_s") - reduces) / whole;
    return (lsi_plan_compute){forward * unit, backward * unit,
                              optimizer * unit};
}

ls_status lsi_plan_measure_compute(const lsi_plan_case *c, double gradients,
                                   lsi_plan_compute *out)
{
    const int cpus = lsi_cpus_available();
    const double share = fmax(1, (double)c->ranks / cpus);
    double meeting, memory;
    lsi_plan_case at_once = *c;
    json_t *json;
    at_once.ranks = c->ranks < cpus ? c->ranks : cpus;
    LS_TRY(
        lsi_plan_measure_meeting(at_once.ranks, gradients, &meeting, &memory));
    LS_TRY(run_steps(&at_once, "flat", NULL, &json));
    *out = compute_of(json, meeting + 2 * gradients / memory);
    json_decref(json);
    out->forward *= share;
    out->backward *= share;
    out->optimizer *= share;
    return isnan(out->optimizer) ? no_room(c) : LS_OK;
}

ls_status lsi_plan_measure_step(const lsi_plan_case *c, const char *strategy,
                                const char *bucket_mb, double *seconds,
                                double *bytes)
{
    json_t *json;
    LS_TRY(run_steps(c, strategy, bucket_mb, &json));
    *seconds = number(json, 0, "step_time_min_s");
    *bytes = fmax(number(json, 0, "peak_bytes.before_step.total"),
                  number(json, 0, "peak_bytes.after_step.total"));
    json_decref(json);
    return isnan(*seconds) ? no_room(c) : LS_OK;
}

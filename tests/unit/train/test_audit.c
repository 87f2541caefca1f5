/*
 * Audits: equal digests by every strategy on any number of ranks; the chain,
 * and changes of its file; a run that is interrupted.
 */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "lockstep/audit.h"
#include "model/audit/chain.h"
#include "model/parallel/strategy.h"
#include "unit/comm/ranks.h"
#include "unit/parallel/toy.h"

enum {
    MOST_RANKS = 4,
    STEPS = 4,
    EVERY = 7 /* bytes between two that are changed */
};

typedef struct place {
    char folder[64], file[96], other[96];
} place;

static place new_place(void)
{
    place p = {.folder = "/tmp/lockstep-audit-XXXXXX"};
    assert_non_null(mkdtemp(p.folder));
    snprintf(p.file, sizeof(p.file), "%s/one.audit", p.folder);
    snprintf(p.other, sizeof(p.other), "%s/other.audit", p.folder);
    return p;
}

static void discard(const place *p)
{
    (void)unlink(p->file);
    (void)unlink(p->other);
    assert_int_equal(rmdir(p->folder), 0);
}

/* ---- every strategy ------------------------------------------------------ */

typedef struct training {
    const char *file;
    ls_ddp_strategy strategy;
    bool averages, resume, changed;
    int from, to;
    ls_status opened, first;
    char message[512];
    char digest[LSI_SHA256_TEXT];
} training;

static void note(training *t, const ls_group *group, ls_status *to,
                 ls_status status)
{
    if (ls_group_rank(group) != 0)
        return;
    *to = status;
    snprintf(t->message, sizeof(t->message), "%s", ls_last_error());
}

static void step(toy *m, ls_ddp *ddp, ls_optimizer *optimizer, int number,
                 bool works)
{
    ls_params_zero_grad(m->params);
    CHECK_OK(ls_ddp_backward(ddp, m->tape,
                             works ? toy_loss(m, number, 0, TOY_ROWS) : NULL,
                             works ? TOY_ROWS : 0));
    CHECK_OK(ls_optimizer_step(optimizer, 1));
    ls_tape_reset(m->tape);
}

/* Only rank 0 has samples, so that sums do not depend on the ranks. */
static void play_training(ls_group *group, void *opaque)
{
    training *const t = opaque;
    toy m;
    ls_ddp *ddp = NULL;
    ls_optimizer *optimizer = NULL;
    ls_audit *audit = NULL;
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    const char *const settings[] = {"batch", t->changed ? "9" : "8", NULL};
    options.strategy = t->strategy;
    toy_make(&m, true, group, 1);
    CHECK_OK(ls_ddp_new(&ddp, group, m.params, &options));
    CHECK_OK(ls_optimizer_new(&optimizer, m.params, NULL));
    if (t->averages)
        CHECK_OK(ls_ema_start(optimizer, 0.75));
    for (int i = 0; i < t->from; i++)
        step(&m, ddp, optimizer, i, ls_group_rank(group) == 0);
    const ls_audit_setup setup = {.params = m.params,
                                  .optimizer = optimizer,
                                  .settings = settings,
                                  .resume = t->resume,
                                  .step = t->from};
    const ls_status opened = ls_audit_open(&audit, group, t->file, &setup);
    note(t, group, &t->opened, opened);
    for (int i = t->from; opened == LS_OK && i <= t->to; i++) {
        const ls_status status = ls_audit_step(audit, i, NULL);
        if (i == t->from)
            note(t, group, &t->first, status);
        if (status != LS_OK)
            break;
        step(&m, ddp, optimizer, i, ls_group_rank(group) == 0);
    }
    if (ls_group_rank(group) == 0)
        snprintf(t->digest, sizeof(t->digest), "%s", ls_audit_digest(audit));
    ls_audit_close(&audit);
    ls_optimizer_free(&optimizer);
    ls_ddp_free(&ddp);
    toy_destroy(&m);
}

static void train(training *t, int ranks)
{
    run_threads(ranks, play_training, t);
}

static void test_strategies(void **state)
{
    const place p = new_place();
    size_t n;
    const lsi_strategy *const strategies = lsi_strategies(&n);
    training first = {.file = p.file, .averages = true, .to = STEPS};
    (void)state;
    train(&first, 1);
    assert_ok(first.opened);
    assert_int_equal(strlen(first.digest), 64);
    for (size_t i = 0; i < n; i++)
        for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
            training other = {.file = p.other,
                              .strategy = strategies[i].id,
                              .averages = true,
                              .to = STEPS};
            train(&other, ranks);
            assert_ok(other.opened);
            assert_string_equal(other.digest, first.digest);
            assert_int_equal(unlink(p.other), 0);
        }
    discard(&p);
}

/* ---- changes of the file ------------------------------------------------- */

typedef struct text {
    char *all;
    size_t bytes;
    size_t ends[32], n; /* of lines */
} text;

static text read_text(const char *path)
{
    text t = {.n = 0};
    assert_ok(lsi_read_regular(path, 1 << 20, &t.all, &t.bytes));
    for (size_t i = 0; i < t.bytes; i++)
        if (t.all[i] == '\n')
            t.ends[t.n++] = i + 1;
    return t;
}

static void write_text(const char *path, const char *data, size_t bytes)
{
    FILE *const file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void expect_broken(const char *path, const char *what)
{
    lsi_chain chain;
    assert_error(lsi_chain_read(path, &chain), LS_ERR_FORMAT, what);
}

/* Lines a..b-1 of t in the order of `order`. */
static void write_lines(const char *path, const text *t, const size_t *order,
                        size_t n)
{
    char *const out = malloc(t->bytes + 1);
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t begin = order[i] > 0 ? t->ends[order[i] - 1] : 0;
        memcpy(out + used, t->all + begin, t->ends[order[i]] - begin);
        used += t->ends[order[i]] - begin;
    }
    write_text(path, out, used);
    free(out);
}

static void change_bytes(const place *p, const text *t)
{
    for (size_t i = 0; i < t->bytes; i += EVERY) {
        char line[32];
        size_t number = 0;
        while (i >= t->ends[number])
            number++;
        snprintf(line, sizeof(line), "line %zu:", number + 1);
        t->all[i] ^= 1;
        write_text(p->other, t->all, t->bytes);
        if (i + 1 < t->bytes) /* without the last newline it is unfinished */
            expect_broken(p->other, line);
        t->all[i] ^= 1;
    }
}

static void move_lines(const place *p, const text *t)
{
    for (size_t i = 0; i + 1 < t->n; i++) {
        size_t order[32], n = 0;
        for (size_t k = 0; k < t->n; k++)
            if (k != i)
                order[n++] = k;
        write_lines(p->other, t, order, n);
        expect_broken(p->other, "line ");
        for (size_t k = 0; k < t->n; k++)
            order[k] = k == i ? i + 1 : k == i + 1 ? i : k;
        write_lines(p->other, t, order, t->n);
        expect_broken(p->other, "line ");
        for (size_t k = 0; k <= t->n; k++)
            order[k] = k <= i ? k : k - 1; /* twice the same line */
        if (i != 1) {
            write_lines(p->other, t, order, t->n);
            expect_broken(p->other, "line ");
        }
    }
}

/* The lines that are left are a chain; only the kept digest says that lines are
 * gone. */
static void cut(const place *p, const text *t)
{
    for (size_t bytes = 0; bytes <= t->bytes; bytes += EVERY) {
        lsi_chain chain;
        size_t lines = 0;
        while (lines < t->n && t->ends[lines] <= bytes)
            lines++;
        write_text(p->other, t->all, bytes);
        if (lines == 0) {
            expect_broken(p->other, "no whole line");
            continue;
        }
        assert_ok(lsi_chain_read(p->other, &chain));
        assert_int_equal(chain.n, lines);
        assert_int_equal(chain.unfinished, bytes - t->ends[lines - 1]);
        lsi_chain_close(&chain);
    }
}

static void test_tampering(void **state)
{
    const place p = new_place();
    training t = {.file = p.file, .to = STEPS};
    lsi_chain chain;
    (void)state;
    train(&t, 1);
    text all = read_text(p.file);
    assert_int_equal(all.n, 2 + STEPS + 1);
    assert_ok(lsi_chain_read(p.file, &chain));
    assert_string_equal(lsi_chain_digest(&chain, chain.n), t.digest);
    lsi_chain_close(&chain);
    change_bytes(&p, &all);
    move_lines(&p, &all);
    cut(&p, &all);
    lsi_free(all.all);
    discard(&p);
}

/* ---- a run that is interrupted ------------------------------------------- */

static void append_text(const char *path, const char *data)
{
    FILE *const file = fopen(path, "ab");
    assert_non_null(file);
    assert_true(fputs(data, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void test_continuing(void **state)
{
    const place p = new_place();
    training whole = {.file = p.other, .to = STEPS};
    training begun = {.file = p.file, .to = 3};
    training resumed = {.file = p.file,
                        .strategy = LS_DDP_FSDP,
                        .resume = true,
                        .from = 2,
                        .to = STEPS};
    (void)state;
    train(&whole, 1);
    train(&begun, 2);
    append_text(p.file, "{\"step\":4,\"val"); /* it was killed */
    train(&resumed, 3);
    assert_ok(resumed.opened);
    assert_ok(resumed.first);
    assert_string_equal(resumed.digest, whole.digest);
    discard(&p);
}

static void test_refusals(void **state)
{
    const place p = new_place();
    training t = {.file = p.file, .to = 3};
    (void)state;
    train(&t, 1);
    train(&t, 1);
    assert_int_equal(t.opened, LS_ERR_STATE);
    assert_non_null(strstr(t.message, "already exists"));
    t.resume = true;
    t.from = t.to = 9;
    train(&t, 2);
    assert_int_equal(t.opened, LS_ERR_STATE);
    assert_non_null(strstr(t.message, "no entry for step 9"));
    t.from = 2;
    t.changed = true;
    train(&t, 2);
    assert_int_equal(t.opened, LS_ERR_MISMATCH);
    assert_non_null(strstr(t.message, "setting 'batch': '8' and '9'"));
    t.changed = false;
    t.averages = true; /* another state */
    train(&t, 2);
    assert_ok(t.opened);
    assert_int_equal(t.first, LS_ERR_MISMATCH);
    assert_non_null(strstr(t.message, "step 2"));
    discard(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strategies), cmocka_unit_test(test_tampering),
        cmocka_unit_test(test_continuing), cmocka_unit_test(test_refusals)};
    return lsi_sha256_is_there() ? cmocka_run_group_tests(tests, NULL, NULL)
                                 : 77;
}

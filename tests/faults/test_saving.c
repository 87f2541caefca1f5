/*
 * Saving and opening while one call of the system after the other fails: of
 * each kind the first, the second, ... until there are no more. A save succeeds
 * or says why not; what is older is as it was, nothing that is half written is
 * opened, and nothing is left lying about.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/memory.h"
#include "faults.h"
#include "lockstep/data.h"
#include "lockstep/tensor.h"
#include "model/checkpoint/find.h"
#include "model/checkpoint/lock.h"
#include "testing.h"
#include "unit/train/checkpoint_model.h"

/* A torn step, and two whole ones; then a save of the next that keeps two. */
enum { TORN = 2, OLD = 3, NEWEST = 4, NEXT = 5, KEEP = 2 };

static faults_arm_fn *arm;
static faults_disarm_fn *disarm;
static bool has_fired;
static atomic_bool has_ended;

static const fault faults[] = {
    {FAULT_WRITE, ENOSPC, false}, {FAULT_WRITE, ENOSPC, true},
    {FAULT_WRITE, EIO, false},    {FAULT_WRITE, EINTR, false},
    {FAULT_WRITE, 0, false},      {FAULT_WRITE, 0, true},
    {FAULT_READ, EIO, false},     {FAULT_READ, EIO, true},
    {FAULT_READ, EINTR, false},   {FAULT_READ, 0, true},
    {FAULT_OPEN, EMFILE, false},  {FAULT_CREATE, ENOSPC, false},
    {FAULT_CREATE, ENOSPC, true}, {FAULT_SYNC, EIO, false},
    {FAULT_SYNC, EIO, true},      {FAULT_RENAME, EIO, false},
    {FAULT_RENAME, ENOSPC, true}, {FAULT_MAKE, ENOSPC, false},
    {FAULT_MAKE, ENOSPC, true},   {FAULT_MEMORY, ENOMEM, false},
    {FAULT_MEMORY, ENOMEM, true}, {FAULT_MAP, ENOMEM, false},
    {FAULT_MAP, ENOMEM, true},
};

/* ---- one attempt --------------------------------------------------------- */

typedef struct attempt {
    plan *p;
    const fault *what;
    int k;
} attempt;

static void arm_together(ls_group *group, const attempt *a)
{
    atomic_store(&has_ended, false);
    CHECK_OK(ls_barrier(group));
    if (ls_group_rank(group) == 0)
        arm(a->what, a->k);
    CHECK_OK(ls_barrier(group));
}

/* Rank 0 is the last to do anything; the others wait for its end. */
static void keep_note(const attempt *a, const ls_group *group, ls_status status)
{
    note(a->p, group, status);
    if (ls_group_rank(group) != 0) {
        while (!atomic_load(&has_ended))
            sched_yield();
        return;
    }
    has_fired = disarm();
    atomic_store(&has_ended, true);
}

static void try_save(ls_group *group, void *opaque)
{
    const attempt *const a = opaque;
    model m = make_model(a->p, group, 1);
    train(&m, 0, NEXT);
    const char *const values[] = {"epoch", "7", "who", "me", NULL};
    const ls_checkpoint_parts parts = {
        .params = m.params, .optimizer = m.optimizer, .values = values};
    arm_together(group, a);
    const ls_status status =
        ls_checkpoint_save(group, a->p->folder, NEXT, &parts, KEEP);
    keep_note(a, group, status);
    free_model(&m);
}

static void try_open(ls_group *group, void *opaque)
{
    const attempt *const a = opaque;
    model m = make_model(a->p, group, 99);
    ls_checkpoint *c = NULL;
    arm_together(group, a);
    ls_status status = ls_checkpoint_open(&c, group, a->p->folder);
    if (status == LS_OK)
        status = ls_checkpoint_load(c, m.params, m.optimizer);
    keep_note(a, group, status);
    if (status == LS_OK) {
        size_t count;
        a->p->opened = ls_checkpoint_step(c);
        model expected = make_model(a->p, group, 1);
        train(&expected, 0, (int)ls_checkpoint_step(c));
        const float *w = ls_params_flat(m.params, &count);
        CHECK(memcmp(w, ls_params_flat(expected.params, &count),
                     count * sizeof(float)) == 0);
        free_model(&expected);
    }
    ls_checkpoint_close(&c);
    free_model(&m);
}

/* Calls that are interrupted, or done in part, are completed. */
static bool is_failure(const fault *what)
{
    return what->error != 0 && what->error != EINTR;
}

/* ---- what is there ------------------------------------------------------- */

static bool is_whole(const plan *p, int64_t step)
{
    return lsi_checkpoint_verify(lsi_step_folder(p->folder, step).text) ==
           LS_OK;
}

/* No file in the making, in the folder or in that of a step. */
static void expect_tidy(const char *folder, int depth)
{
    DIR *const dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (lsi_temporary_end(e->d_name) != NULL)
            fail_msg("'%s' was left in '%s'", e->d_name, folder);
        if (depth > 0 && strncmp(e->d_name, "step-", 5) == 0)
            expect_tidy(lsi_path_in(folder, e->d_name).text, depth - 1);
    }
    closedir(dir);
}

/*
 * All ranks say the same, except that a collective says on the others which
 * rank it was; and none of them that another did not come.
 */
static void expect_sentence(const plan *p, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        assert_int_equal(p->status[r], p->status[0]);
        if (strstr(p->message[r], p->message[0]) == NULL &&
            strstr(p->message[0], p->message[r]) == NULL)
            fail_msg("'%s' and '%s'", p->message[0], p->message[r]);
        assert_true(p->message[r][0] != '\0' || p->status[r] == LS_OK);
    }
    assert_int_not_equal(p->status[0], LS_ERR_TIMEOUT);
    assert_int_not_equal(p->status[0], LS_ERR_MISMATCH);
}

/* ---- folders ------------------------------------------------------------- */

static void fill(plan *p)
{
    const int64_t steps[] = {TORN, OLD, NEWEST};
    for (size_t i = 0; i < TEST_COUNT(steps); i++) {
        p->steps = (int)steps[i];
        save_elsewhere(p, steps[i]);
    }
    assert_int_equal(unlink(file_of(p, TORN, LSI_MANIFEST_FILE).text), 0);
    p->steps = -1;
}

/* Only without any memory what was begun cannot be cleared away. */
static void after_save(plan *p, const fault *what)
{
    assert_true(is_whole(p, NEWEST));
    if (p->status[0] == LS_OK) {
        run_threads(1, load, p);
        if (p->status[0] != LS_OK || p->opened != NEXT)
            fail_msg("saved, but %s", p->message[0]);
        return;
    }
    assert_true(is_whole(p, OLD));
    if (is_whole(p, NEXT) || (what->call == FAULT_MEMORY && what->stays))
        return;
    assert_false(exists(lsi_step_folder(p->folder, NEXT)));
    expect_tidy(p->folder, 1);
}

/* All is as if nothing had happened. */
static void save_again(plan *p)
{
    const fault none = {FAULT_CALLS, 0, false};
    attempt a = {p, &none, 1};
    const bool saved = is_whole(p, NEXT); /* and some rank did not hear of it */
    run_threads(1, try_save, &a);
    if (p->status[0] != (saved ? LS_ERR_STATE : LS_OK))
        fail_msg("%s", p->message[0]);
    if (!saved)
        assert_string_equal(steps_of(p), "5 4");
    expect_tidy(p->folder, 1);
    run_threads(1, load, p);
    assert_int_equal(p->status[0], LS_OK);
    assert_int_equal(p->opened, NEXT);
}

/* Returns whether the fault has come to pass. */
static bool save_once(const plan *before, const fault *what, int k, int ranks)
{
    plan p = copy_plan(before);
    attempt a = {&p, what, k};
    run_threads(ranks, try_save, &a);
    const bool fired = has_fired;
    assert_true(is_failure(what) || p.status[0] == LS_OK);
    expect_sentence(&p, ranks);
    after_save(&p, what);
    if (p.status[0] != LS_OK)
        save_again(&p);
    discard(&p);
    return fired;
}

/* A save must not remove existing files before the new ones are complete. */
static bool save_over_once(plan *p, const fault *what, int k, int ranks)
{
    attempt a = {p, what, k};
    run_threads(ranks, try_save, &a);
    expect_sentence(p, ranks);
    assert_int_not_equal(p->status[0], LS_OK);
    assert_true(is_whole(p, NEXT));
    return has_fired;
}

static bool open_once(plan *p, const fault *what, int k, int ranks)
{
    attempt a = {p, what, k};
    run_threads(ranks, try_open, &a);
    assert_true(is_failure(what) || p->status[0] == LS_OK);
    expect_sentence(p, ranks);
    return has_fired;
}

/*
 * A checkpoint that an opening skipped because of one failing call makes room
 * for the step when the run reaches it, and stays under another name.
 */
static bool pass_over_once(const plan *before, const fault *what, int k)
{
    plan p = copy_plan(before);
    attempt a = {&p, what, k};
    run_threads(1, try_open, &a);
    const bool fired = has_fired;
    if (p.status[0] == LS_OK) {
        const bool passed = p.opened != NEWEST;
        p.step = p.steps = NEWEST;
        p.keep = KEEP;
        run_threads(1, save, &p);
        assert_int_equal(p.status[0], passed ? LS_OK : LS_ERR_STATE);
        assert_true(is_whole(&p, NEWEST));
        p.steps = -1;
        const lsi_path aside =
            lsi_path_in(p.folder, "unreadable-step-000000000004");
        assert_int_equal(exists(aside), passed);
        if (passed) {
            assert_ok(lsi_checkpoint_verify(aside.text));
            assert_int_equal(
                rename(aside.text, lsi_step_folder(p.folder, 9).text), 0);
        }
    }
    discard(&p);
    return fired;
}

/* ---- tests --------------------------------------------------------------- */

static const char *name_of(const fault *f)
{
    static const char *const names[FAULT_CALLS] = {
        [FAULT_WRITE] = "write",   [FAULT_READ] = "read",
        [FAULT_OPEN] = "open",     [FAULT_CREATE] = "create",
        [FAULT_SYNC] = "fsync",    [FAULT_RENAME] = "rename",
        [FAULT_MAKE] = "mkdir",    [FAULT_LOOK] = "fstat",
        [FAULT_MEMORY] = "malloc", [FAULT_MAP] = "mmap"};
    return names[f->call];
}

/*
 * Of those that stay some will do: what fails first makes the difference. So
 * they do of the many for memory if one rank has gone through all of them.
 */
static int next(const fault *what, int k, int ranks)
{
    if (what->stays)
        return k + 1 + k / 4;
    return what->call == FAULT_MEMORY && ranks > 1 ? k + 3 : k + 1;
}

static void tell(const char *what, int ranks, const fault *f, int k)
{
    if (k > 1)
        print_message("%d ranks %s: %d calls of %s: %s%s\n", ranks, what, k - 1,
                      name_of(f),
                      f->error != 0 ? strerror(f->error) : "in pieces",
                      f->stays ? ", from then on" : "");
}

static void saves(void **state)
{
    (void)state;
    plan before = new_plan();
    fill(&before);
    for (int ranks = 1; ranks <= 2; ranks++) {
        for (size_t i = 0; i < TEST_COUNT(faults); i++) {
            int k = 1;
            while (save_once(&before, &faults[i], k, ranks))
                k = next(&faults[i], k, ranks);
            tell("save", ranks, &faults[i], k);
        }
    }
    discard(&before);
}

static void saves_over(void **state)
{
    (void)state;
    plan p = new_plan();
    p.steps = NEXT;
    save_elsewhere(&p, NEXT);
    for (int ranks = 1; ranks <= 2; ranks++) {
        for (size_t i = 0; i < TEST_COUNT(faults); i++) {
            int k = 1;
            while (save_over_once(&p, &faults[i], k, ranks))
                k = next(&faults[i], k, ranks);
            tell("save over", ranks, &faults[i], k);
        }
    }
    discard(&p);
}

static void opens(void **state)
{
    (void)state;
    plan p = new_plan();
    fill(&p);
    for (int ranks = 1; ranks <= 2; ranks++) {
        for (size_t i = 0; i < TEST_COUNT(faults); i++) {
            int k = 1;
            while (open_once(&p, &faults[i], k, ranks))
                k = next(&faults[i], k, ranks);
            tell("open", ranks, &faults[i], k);
        }
    }
    assert_true(is_whole(&p, OLD) && is_whole(&p, NEWEST));
    discard(&p);
}

static void passes_over(void **state)
{
    static const fault passing[] = {{FAULT_OPEN, ESTALE, false},
                                    {FAULT_READ, EIO, false}};
    (void)state;
    plan before = new_plan();
    fill(&before);
    for (size_t i = 0; i < TEST_COUNT(passing); i++) {
        int k = 1;
        while (pass_over_once(&before, &passing[i], k))
            k++;
        assert_true(k > 1);
        tell("pass over", 1, &passing[i], k);
    }
    discard(&before);
}

/* A server that has lost the file does not make it another kind of file. */
static void locks(void **state)
{
    const fault stale = {FAULT_LOOK, ESTALE, false};
    (void)state;
    plan p = new_plan();
    lsi_folder_lock lock = {.held = false};
    arm(&stale, 1);
    const ls_status status =
        lsi_folder_lock_acquire(&lock, p.folder, LSI_LOCK_FILE);
    assert_true(disarm());
    assert_int_equal(status, LS_ERR_IO);
    assert_non_null(strstr(ls_last_error(), "cannot examine the lock"));
    assert_non_null(strstr(ls_last_error(), strerror(ESTALE)));
    assert_ok(lsi_folder_lock_acquire(&lock, p.folder, LSI_LOCK_FILE));
    lsi_folder_lock_drop(&lock);
    discard(&p);
}

/* ---- files by themselves ------------------------------------------------- */

static int first_of(const char *path)
{
    unsigned char bytes[3] = {0};
    const int64_t n = 3;
    ls_tensor *tensor;
    assert_ok(ls_tensor_wrap(&tensor, bytes, LS_U8, 1, &n, NULL));
    const ls_named_tensor named = {"bytes", tensor};
    assert_ok(ls_safetensors_load(path, &named, 1));
    ls_tensor_free(&tensor);
    return bytes[0];
}

static bool replace_once(const char *folder, const fault *what, int k)
{
    unsigned char bytes[3] = {7, 2, 3};
    const int64_t n = 3;
    const lsi_path path = lsi_path_in(folder, "file");
    ls_tensor *tensor;
    assert_ok(ls_tensor_wrap(&tensor, bytes, LS_U8, 1, &n, NULL));
    const ls_named_tensor named = {"bytes", tensor};
    assert_ok(ls_safetensors_save(path.text, &named, 1, NULL));
    bytes[0] = 8;
    arm(what, k);
    const ls_status status = ls_safetensors_save(path.text, &named, 1, NULL);
    const bool fired = disarm();
    ls_tensor_free(&tensor);
    const int first = first_of(path.text);
    assert_true(first == 8 || (first == 7 && status != LS_OK));
    assert_true(is_failure(what) || status == LS_OK);
    expect_tidy(folder, 0);
    return fired;
}

static bool map_once(const char *folder, const fault *what, int k)
{
    const lsi_path path = lsi_path_in(folder, "file");
    ls_tokens *tokens = NULL;
    arm(what, k);
    const ls_status status = ls_tokens_new(&tokens, path.text, LS_TOKENS_TEXT);
    const bool fired = disarm();
    assert_int_equal(status == LS_OK, tokens != NULL);
    if (tokens != NULL)
        assert_ok(ls_tokens_check(tokens, 256));
    ls_tokens_free(&tokens);
    return fired;
}

static void files(void **state)
{
    (void)state;
    const plan p = new_plan();
    const char *const folder = p.folder;
    int maps = 0;
    for (size_t i = 0; i < TEST_COUNT(faults); i++) {
        int k = 1;
        while (replace_once(folder, &faults[i], k))
            k = next(&faults[i], k, 1);
        tell("write a file", 1, &faults[i], k);
        for (k = 1; map_once(folder, &faults[i], k); k++)
            maps += faults[i].call == FAULT_MAP;
        tell("map a file", 1, &faults[i], k);
    }
    assert_true(maps > 0);
    unlink(lsi_path_in(folder, "file").text);
    discard(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saves), cmocka_unit_test(saves_over),
        cmocka_unit_test(opens), cmocka_unit_test(passes_over),
        cmocka_unit_test(locks), cmocka_unit_test(files),
    };
    *(void **)&arm = dlsym(RTLD_DEFAULT, "faults_arm");
    *(void **)&disarm = dlsym(RTLD_DEFAULT, "faults_disarm");
    if (arm == NULL || disarm == NULL) {
        fprintf(stderr, "preload libfaults.so, which is built with this\n");
        return 1;
    }
    /* Thousands of folders, of which no disk needs to know. */
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

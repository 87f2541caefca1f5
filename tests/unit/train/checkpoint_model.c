/* A small model for tests of checkpoints. */
#include "checkpoint_model.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "model/autograd/params.h"
#include "model/checkpoint/folder.h"
#include "model/checkpoint/lock.h"
#include "testing.h"

static void add(ls_params *params, const char *name, int64_t n)
{
    CHECK_OK(ls_params_add(params, name, 1, &n, (ls_init){LS_INIT_NORMAL, 0, 1},
                           NULL));
}

/* A rank that shares the state out owns a part of no round size. */
static void own_a_part(ls_params *params, const ls_group *group)
{
    size_t count;
    (void)ls_params_flat(params, &count);
    const lsi_range mine = lsi_partition(
        count, (size_t)ls_group_size(group),
        (size_t)(ls_group_size(group) - 1 - ls_group_rank(group)));
    CHECK_OK(lsi_params_set_owned(params, &mine, 1));
}

model make_model(const plan *p, const ls_group *group, uint64_t seed)
{
    model m = {0};
    const int64_t three = 3;
    CHECK_OK(ls_params_new(&m.params));
    add(m.params, "first.weight", 1000);
    add(m.params, "hidden.weight", p->hidden);
    if (p->more)
        add(m.params, "more.weight", 5);
    CHECK_OK(
        ls_params_add_buffer(m.params, "mean", 1, &three, (ls_init){0}, NULL));
    CHECK_OK(ls_params_allocate(m.params, NULL, seed));
    if (p->sharded)
        own_a_part(m.params, group);
    ls_tensor *rest[] = {ls_params_get(m.params, 1)};
    ls_tensor *first[] = {ls_params_get(m.params, 0)};
    if (p->sgd) {
        CHECK_OK(ls_optimizer_new(
            &m.optimizer, m.params,
            &(ls_optimizer_spec){
                .sgd = &(ls_sgd_options){.lr = 0.1, .momentum = 0.9}}));
        return m;
    }
    const ls_adamw_options options = LS_ADAMW_OPTIONS_INIT;
    CHECK_OK(ls_optimizer_new(
        &m.optimizer, m.params,
        &(ls_optimizer_spec){.adamw = &options, .tensors = first, .n = 1}));
    CHECK_OK(ls_optimizer_add_group(
        m.optimizer,
        &(ls_optimizer_spec){.adamw = &options, .tensors = rest, .n = 1}));
    return m;
}

void free_model(model *m)
{
    ls_optimizer_free(&m->optimizer);
    ls_params_free(&m->params);
}

/* The same gradients on every rank; weights that no rank steps do not matter.
 */
void train(const model *m, int from, int steps)
{
    for (int step = from; step < from + steps; step++) {
        ls_params_finish_grad(m->params);
        for (size_t i = 0; i < ls_params_count(m->params); i++) {
            ls_tensor *grad = ls_grad(ls_params_get(m->params, i));
            float *g = tensor_data(grad);
            for (int64_t k = 0; k < ls_tensor_count(grad); k++)
                g[k] = (float)((k * 7 + step * 13 + (int64_t)i) % 31) / 16 - 1;
        }
        CHECK_OK(ls_optimizer_step(m->optimizer, 1));
    }
}

void exchange(const plan *p, ls_group *group, const model *m)
{
    size_t count;
    float *flat = ls_params_flat(m->params, &count);
    const size_t size = (size_t)ls_group_size(group);
    for (size_t r = 0; p->sharded && r < size; r++) {
        const lsi_range part = lsi_partition(count, size, size - 1 - r);
        CHECK_OK(ls_broadcast(group, flat + part.begin, lsi_range_size(part),
                              LS_F32, (int)r));
    }
}

void note(plan *p, const ls_group *group, ls_status status)
{
    const int rank = ls_group_rank(group);
    p->status[rank] = status;
    snprintf(p->message[rank], sizeof p->message[rank], "%s",
             status == LS_OK ? "" : ls_last_error());
}

void save(ls_group *group, void *opaque)
{
    plan *const p = opaque;
    model m = make_model(p, group, 1);
    train(&m, 0, p->steps);
    exchange(p, group, &m);
    float *mean = tensor_data(ls_params_buffer(m.params, 0));
    for (int i = 0; i < 3; i++)
        mean[i] = (float)(10 * ls_group_rank(group) + i);
    const char *const values[] = {"epoch", "7", "who", "me & you", NULL};
    const ls_checkpoint_parts parts = {
        .params = m.params, .optimizer = m.optimizer, .values = values};
    note(p, group,
         ls_checkpoint_save(group, p->folder, p->step, &parts, p->keep));
    free_model(&m);
}

void load(ls_group *group, void *opaque)
{
    plan *const p = opaque;
    model m = make_model(p, group, 99);
    ls_checkpoint *c = NULL;
    ls_status status = ls_checkpoint_open(&c, group, p->folder);
    if (status == LS_OK) {
        p->opened = ls_checkpoint_step(c);
        status = ls_checkpoint_load(c, m.params, m.optimizer);
    }
    note(p, group, status);
    if (status == LS_OK) {
        plan whole = *p;
        whole.sharded = false;
        model expected = make_model(&whole, group, 1);
        size_t count;
        const int done = p->steps >= 0 ? p->steps : (int)p->opened;
        train(&expected, 0, done + 2);
        train(&m, done, 2);
        exchange(p, group, &m);
        const float *a = ls_params_flat(m.params, &count);
        CHECK(memcmp(a, ls_params_flat(expected.params, &count),
                     count * sizeof(float)) == 0);
        free_model(&expected);
    }
    ls_checkpoint_close(&c);
    free_model(&m);
}

plan new_plan(void)
{
    plan p = {.step = 5, .steps = 3, .hidden = 333};
    const char *const around = getenv("TMPDIR");
    snprintf(p.folder, sizeof p.folder, "%.20s/lockstep-checkpoint-XXXXXX",
             around != NULL ? around : "/tmp");
    assert_non_null(mkdtemp(p.folder));
    return p;
}

void discard(const plan *p)
{
    int64_t *steps;
    size_t n;
    assert_ok(lsi_steps_list(p->folder, &steps, &n));
    for (size_t i = 0; i < n; i++)
        assert_ok(lsi_step_remove(p->folder, steps[i]));
    lsi_free(steps);
    unlink(lsi_path_in(p->folder, LSI_LOCK_FILE).text);
    assert_int_equal(rmdir(p->folder), 0);
}

void expect_ok(plan *p, int ranks, rank_fn fn)
{
    run_threads(ranks, fn, p);
    for (int r = 0; r < ranks; r++) {
        if (p->status[r] != LS_OK)
            fail_msg("rank %d: %s", r, p->message[r]);
    }
}

/* The same error everywhere. */
void expect_error(plan *p, int ranks, rank_fn fn, const char *what)
{
    run_threads(ranks, fn, p);
    for (int r = 0; r < ranks; r++) {
        assert_int_not_equal(p->status[r], LS_OK);
        assert_string_equal(p->message[r], p->message[0]);
    }
    if (strstr(p->message[0], what) == NULL)
        fail_msg("'%s' does not say '%s'", p->message[0], what);
}

lsi_path file_of(const plan *p, int64_t step, const char *name)
{
    return lsi_path_in(lsi_step_folder(p->folder, step).text, name);
}

void flip_byte(lsi_path path, off_t offset)
{
    unsigned char byte;
    const int fd = open(path.text, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, offset), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
    close(fd);
}

/* The steps that have a folder, newest first, as text. */
const char *steps_of(const plan *p)
{
    static char text[256];
    int64_t *steps;
    size_t n, used = 0;
    assert_ok(lsi_steps_list(p->folder, &steps, &n));
    text[0] = '\0';
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld",
                                 i > 0 ? " " : "", (long long)steps[i]);
    lsi_free(steps);
    return text;
}

/* By another process, so that this one does not know that it is whole. */
void save_elsewhere(plan *p, int64_t step)
{
    p->step = step;
    const pid_t child = fork();
    if (child == 0) {
        run_threads(1, save, p);
        _exit(p->status[0] == LS_OK ? 0 : 1);
    }
    assert_int_equal(wait_process(child), 0);
}

void save_step(plan *p, int64_t step)
{
    p->step = step;
    expect_ok(p, 2, save);
}

bool exists(lsi_path path)
{
    struct stat info;
    return lstat(path.text, &info) == 0;
}

static void copy_file(const char *from, const char *to)
{
    char block[4096];
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    assert_non_null(in);
    assert_non_null(out);
    for (size_t n; (n = fread(block, 1, sizeof block, in)) > 0;)
        assert_int_equal(fwrite(block, 1, n, out), n);
    assert_int_equal(fclose(in), 0);
    assert_int_equal(fclose(out), 0);
}

static void copy_step(const char *from, const char *to)
{
    DIR *const dir = opendir(from);
    assert_non_null(dir);
    assert_int_equal(mkdir(to, 0777), 0);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] != '.')
            copy_file(lsi_path_in(from, e->d_name).text,
                      lsi_path_in(to, e->d_name).text);
    }
    closedir(dir);
}

plan copy_plan(const plan *from)
{
    plan p = *from;
    int64_t *steps;
    size_t n;
    memcpy(p.folder, new_plan().folder, sizeof p.folder);
    assert_ok(lsi_steps_list(from->folder, &steps, &n));
    for (size_t i = 0; i < n; i++)
        copy_step(lsi_step_folder(from->folder, steps[i]).text,
                  lsi_step_folder(p.folder, steps[i]).text);
    lsi_free(steps);
    return p;
}

/* ---- what is said -------------------------------------------------------- */

static FILE *said;
static int usual_stderr;

void collect_warnings(void)
{
    said = tmpfile();
    assert_non_null(said);
    usual_stderr = dup(STDERR_FILENO);
    assert_true(dup2(fileno(said), STDERR_FILENO) >= 0);
}

/* How often the warnings since then said that. */
int count_warnings(const char *what)
{
    char line[2048];
    int n = 0;
    assert_true(dup2(usual_stderr, STDERR_FILENO) >= 0);
    close(usual_stderr);
    rewind(said);
    while (fgets(line, sizeof line, said) != NULL)
        n += strstr(line, what) != NULL;
    fclose(said);
    return n;
}

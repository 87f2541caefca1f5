/*
 * One writer for each folder of checkpoints, for a run or for a save.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint_model.h"
#include "model/checkpoint/lock.h"
#include "model/checkpoint/save.h"
#include "testing.h"

/*
 * A process that has the folder's lock, and a child of it that lives on until
 * this program closes a pipe, or ends.
 */
typedef struct holder {
    pid_t pid;
    int until;
} holder;

static void hold_on(const int until[2])
{
    char byte;
    close(until[1]);
    _exit(read(until[0], &byte, 1) == 0 ? 0 : 1);
}

static holder start_holder(const plan *p)
{
    int until[2], ready[2];
    char byte;
    assert_int_equal(pipe(until), 0);
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        lsi_folder_lock lock = {.held = false};
        CHECK_OK(lsi_folder_lock_acquire(&lock, p->folder, LSI_LOCK_FILE));
        if (fork() != 0)
            hold_on(until);
        CHECK(!lock.held);
        CHECK(write(ready[1], "", 1) == 1);
        close(ready[1]);
        hold_on(until);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    close(until[0]);
    return (holder){pid, until[1]};
}

static void another_process_is_named(void **state)
{
    (void)state;
    char host[64] = "", name[128];
    plan p = new_plan();
    save_elsewhere(&p, 5);
    const holder h = start_holder(&p);
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    snprintf(name, sizeof name, "process %ld on host %s is writing to",
             (long)h.pid, host);
    p.step = 6;
    expect_error(&p, 2, save, name);
    assert_int_equal(p.status[1], LS_ERR_STATE);
    assert_string_equal(steps_of(&p), "5");
    expect_ok(&p, 2, load); /* readers need no lock */
    /* Its end is that of the lock, and what it has forked has none. */
    kill(h.pid, SIGKILL);
    (void)wait_process(h.pid);
    save_step(&p, 6);
    close(h.until);
    discard(&p);
}

static void save_with(ls_group *group, void *opaque)
{
    static lsi_folder_lock locks[2];
    plan *const p = opaque;
    model m = make_model(p, group, 1);
    const int rank = ls_group_rank(group);
    const ls_checkpoint_parts parts = {.params = m.params,
                                       .optimizer = m.optimizer};
    note(p, group,
         lsi_checkpoint_save(group, &locks[rank], p->folder, p->step, &parts,
                             0));
    CHECK(locks[rank].held == (rank == 0));
    if (p->more)
        lsi_folder_lock_drop(&locks[rank]);
    free_model(&m);
}

/* A run keeps it from one save to the next, from its own process, too. */
static void a_run_keeps_its_lock(void **state)
{
    (void)state;
    plan p = new_plan();
    p.step = 1;
    expect_ok(&p, 2, save_with);
    p.step = 2;
    expect_error(&p, 2, save, "is writing to");
    expect_ok(&p, 2, save_with);
    /* Somebody cleans up; the lock is that of the new folder. */
    discard(&p);
    assert_int_equal(mkdir(p.folder, 0700), 0);
    expect_ok(&p, 2, save_with);
    p.step = 3;
    expect_error(&p, 1, save, "is writing to");
    p.more = true;
    expect_ok(&p, 2, save_with);
    p.more = false;
    p.step = 4;
    expect_ok(&p, 1, save);
    discard(&p);
}

static void an_odd_lock_is_refused(void **state)
{
    (void)state;
    plan p = new_plan();
    const lsi_path path = lsi_path_in(p.folder, LSI_LOCK_FILE);
    const lsi_path target = lsi_path_in(p.folder, "target");
    assert_int_equal(symlink(target.text, path.text), 0);
    expect_error(&p, 2, save, "cannot open the lock");
    assert_false(exists(target));
    unlink(path.text);
    assert_int_equal(mkfifo(path.text, 0600), 0);
    expect_error(&p, 2, save, "is not a regular file");
    discard(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_process_is_named),
        cmocka_unit_test(a_run_keeps_its_lock),
        cmocka_unit_test(an_odd_lock_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

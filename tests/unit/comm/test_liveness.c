/*
 * The test whether a rank is alive: actions of a process on its descriptors,
 * threads and children do not count as death, and every kind of end does.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "comm/core/peers.h"
#include "comm/health/failure.h"
#include "ranks.h"
#include "testing.h"

enum { RANKS = 3, VICTIM = 1, DESCRIPTORS = 256 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- what is no death ---------------------------------------------------- */

/* As a backup does, or a debugger: opens and closes whatever is open. */
static void reopen_descriptors(void)
{
    char path[64];
    int reopened = 0;
    for (int fd = 3; fd < DESCRIPTORS; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        const int again = open(path, O_RDONLY | O_CLOEXEC);
        reopened += again >= 0;
        if (again >= 0)
            close(again);
    }
    CHECK(reopened > 0);
}

static void close_descriptors(void)
{
    for (int fd = 3; fd < DESCRIPTORS; fd++)
        close(fd);
}

static void fork_and_end(void)
{
    const pid_t child = fork();
    if (child == 0)
        exit(0);
    CHECK(wait_process(child) == 0);
}

static void run_a_program(void)
{
    CHECK(system("true") == 0);
}

typedef void deed(void);

/* All look at all others afterwards, whom they find alive. */
static void do_and_look(ls_group *group, void *argument)
{
    deed *const *const what = argument;
    CHECK_OK(ls_barrier(group));
    if (ls_group_rank(group) == VICTIM)
        (*what)();
    CHECK_OK(ls_barrier(group));
    CHECK_OK(lsi_check_peers(group));
    CHECK(lsi_find_dead(group) < 0);
    CHECK_OK(ls_barrier(group));
}

static void no_deed_is_a_death(void **state)
{
    static deed *deeds[] = {reopen_descriptors, close_descriptors, fork_and_end,
                            run_a_program};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(deeds); i++)
        run_processes(RANKS, do_and_look, &deeds[i]);
}

/* The thread that opens a group ends; its process goes on. */
static void *open_group(void *out)
{
    CHECK_OK(ls_group_from_env(out));
    return NULL;
}

static void open_in_a_thread(ls_group *group, void *unused)
{
    ls_group *second = NULL;
    pthread_t thread;
    (void)unused;
    CHECK_OK(ls_barrier(group));
    CHECK(pthread_create(&thread, NULL, open_group, &second) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_OK(ls_barrier(second));
    CHECK(lsi_find_dead(second) < 0);
    CHECK_OK(ls_barrier(second));
    ls_group_close(&second);
}

static void a_thread_that_ends_is_no_death(void **state)
{
    (void)state;
    run_processes(RANKS, open_in_a_thread, NULL);
}

/* ---- what is one --------------------------------------------------------- */

/* The values that a dying process leaves for the test. */
typedef struct legacy {
    void (*die)(struct legacy *legacy);
    _Atomic pid_t child;
} legacy;

static void die_by_signal(legacy *unused)
{
    (void)unused;
    raise(SIGKILL);
}

static void die_by_exit(legacy *unused)
{
    (void)unused;
    _exit(0);
}

/* The child has all descriptors and all memory, and lives on. */
static void leave_a_child(legacy *left)
{
    const pid_t child = fork();
    if (child == 0) {
        left->child = getpid();
        for (;;)
            pause();
    }
    while (left->child == 0)
        sched_yield();
    raise(SIGKILL);
}

static void become_another_program(legacy *left)
{
    left->child = getpid();
    execlp("sleep", "sleep", "600", (char *)NULL);
    _exit(1);
}

/* Of its threads the first is the last to end. */
static void *kill_all(void *unused)
{
    (void)unused;
    raise(SIGKILL);
    return NULL;
}

static void die_by_a_thread(legacy *unused)
{
    pthread_t thread;
    (void)unused;
    CHECK(pthread_create(&thread, NULL, kill_all, NULL) == 0);
    for (;;)
        pause();
}

static void wait_for_the_dead(ls_group *group, void *argument)
{
    legacy *left = argument;
    CHECK_OK(ls_barrier(group));
    CHECK_OK(ls_group_set_timeout(group, 0));
    if (ls_group_rank(group) == VICTIM)
        left->die(left);
    CHECK(ls_barrier(group) == LS_ERR_PEER_DEAD);
    CHECK(strstr(ls_last_error(), "rank 1 (host ") != NULL);
    CHECK(strstr(ls_last_error(), "has died") != NULL);
}

/*
 * How many seconds the others need to find out, until when the victim stays a
 * zombie; 0 where that cannot be seen.
 */
static double time_death(void (*die)(legacy *left))
{
    pid_t pids[RANKS];
    legacy *left = mmap(NULL, sizeof(legacy), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    siginfo_t ended;
    CHECK(left != MAP_FAILED);
    left->die = die;
    start_processes(RANKS, wait_for_the_dead, left, pids);
    if (die != become_another_program)
        CHECK(waitid(P_PID, (id_t)pids[VICTIM], &ended, WEXITED | WNOWAIT) ==
              0);
    const double then = seconds();
    for (int r = 0; r < RANKS; r++)
        if (r != VICTIM)
            CHECK(wait_process(pids[r]) == 0);
    const double took = die != become_another_program ? seconds() - then : 0;
    if (left->child != 0)
        CHECK(kill(left->child, SIGKILL) == 0);
    (void)wait_process(pids[VICTIM]);
    munmap(left, sizeof(legacy));
    return took;
}

static void check_death(void (*die)(legacy *left))
{
    CHECK_QUICK(time_death(die), 1.5);
}

static void every_end_is_a_death(void **state)
{
    (void)state;
    check_death(die_by_signal);
    check_death(die_by_exit);
    check_death(die_by_a_thread);
    check_death(leave_a_child);
    check_death(become_another_program);
}

/* ---- poor systems -------------------------------------------------------- */

/* Runs part of the test in a separate process; 77 is for "not here". */
static int apart(void (*fn)(void))
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fn();
        _exit(0);
    }
    const int status = wait_process(child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void look_at_life_and_death(void)
{
    deed *harmless = run_a_program;
    run_processes(RANKS, do_and_look, &harmless);
    check_death(die_by_signal);
    check_death(leave_a_child);
}

/* LLVM's OpenMP leaves a file in /dev/shm if its process is killed. Another
 * process with the same id finds that file, and then needs /proc. So /dev/shm
 * is empty. */
static void without_proc(void)
{
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/dev/shm", "tmpfs", 0, NULL) != 0 ||
        umount2("/proc", MNT_DETACH) != 0)
        _exit(77);
    CHECK(access("/proc/self", F_OK) != 0);
    look_at_life_and_death();
}

static void nobody_needs_proc(void **state)
{
    (void)state;
    const int status = apart(without_proc);
    if (status == 77) {
        print_message("not allowed to unmount /proc\n");
        skip();
    }
    assert_int_equal(status, 0);
}

/* As under an emulator: the call does not exist. */
static void without_robust_futexes(void)
{
    static struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_set_robust_list, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    static const struct sock_fprog program = {TEST_COUNT(steps), steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(77);
    look_at_life_and_death();
}

static void a_lock_does_where_there_are_no_robust_futexes(void **state)
{
    (void)state;
    const int status = apart(without_robust_futexes);
    if (status == 77) {
        print_message("not allowed to filter system calls\n");
        skip();
    }
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_deed_is_a_death),
        cmocka_unit_test(a_thread_that_ends_is_no_death),
        cmocka_unit_test(every_end_is_a_death),
        cmocka_unit_test(nobody_needs_proc),
        cmocka_unit_test(a_lock_does_where_there_are_no_robust_futexes),
    };
    return cmocka_run_group_tests_name("liveness", tests, NULL, NULL);
}

/*
 * The end of a trace and of a memory recording while other threads record:
 * files stay whole, even with late threads. A process that forks meanwhile has
 * a child that can go on.
 */
#include "testing.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "lockstep/lockstep.h"
#include "observe/chunks.h"
#include "observe/lock.h"
#include "observe/memory_record.h"
#include "observe/span_file.h"
#include "report/memory_file.h"
#include "report/timeline.h"

static char folder[64];
static char path[128];

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lockstep-span-end-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/process-%d.lstrace", folder, (int)getpid());
    return 0;
}

static int end(void **state)
{
    (void)state;
    (void)remove(path);
    return rmdir(folder);
}

static off_t size_of_file(void)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_size;
}

static void a_late_span_leaves_the_file_alone(void **state)
{
    const lsi_span late = {.begin = 1, .end = 2, .kind = LSI_SPAN_RANGE};
    (void)state;
    assert_ok(lsi_span_start(folder));
    ls_range_push("range");
    ls_range_pop();
    lsi_span_stop();
    const off_t before = size_of_file();
    lsi_observe_lock();
    assert_false(lsi_span_write(0, "late", &late, 1));
    lsi_observe_unlock();
    assert_int_equal(size_of_file(), before);
    lsi_span_stop();
    assert_int_equal(size_of_file(), before);
}

/* ---- threads ------------------------------------------------------------- */

enum { THREADS = 3, ROUNDS = 20 };

static atomic_bool over;

static void *record(void *context)
{
    (void)context;
    while (!atomic_load(&over))
        for (int i = 0; i < 100; i++) {
            ls_range_push("of a thread");
            ls_range_pop();
        }
    return NULL;
}

static void threads_may_record_until_the_end_and_beyond(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        lsi_timeline *t = NULL;
        atomic_store(&over, false);
        assert_ok(lsi_span_start(folder));
        ls_range_push("own");
        ls_range_pop();
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, record, NULL),
                             0);
        for (int i = 0; i < round; i++)
            sched_yield();
        if (round % 2 == 0)
            atomic_store(&over, true); /* they end while it is stopped */
        lsi_span_stop();
        atomic_store(&over, true);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        assert_ok(lsi_timeline_read(folder, &t));
        assert_true(t->process[0]->whole);
        assert_true(t->process[0]->n >= 1);
        lsi_timeline_free(&t);
    }
}

/* ---- forks --------------------------------------------------------------- */

static void *tell_rank(void *context)
{
    (void)context;
    while (!atomic_load(&over))
        lsi_span_set_rank(0, 1, 1);
    return NULL;
}

static bool child_can_tell(void)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        int32_t rank, size;
        alarm(50); /* one that waits for ever, however busy the machine is */
        lsi_span_set_rank(3, 5, 1);
        lsi_get_rank(&rank, &size);
        _exit(rank == 3 && size == 5 ? 0 : 1);
    }
    return waitpid(child, &status, 0) == child && status == 0;
}

/*
 * The thread sanitizer's pthread_once does not know of forks: where a thread is
 * inside one while another forks, the child waits for it for ever. The C
 * library's own runs it again.
 */
static void settle(void)
{
#ifdef __SANITIZE_THREAD__
    lsi_span_set_rank(0, 1, 1);
#endif
}

/*
 * No lock that another thread holds stays locked in the child. The process that
 * forks has recorded nothing yet.
 */
static void a_child_can_tell_its_rank(void **state)
{
    int status;
    (void)state;
    const pid_t parent = fork();
    if (parent == 0) {
        pthread_t thread;
        settle();
        bool good = pthread_create(&thread, NULL, tell_rank, NULL) == 0;
        for (int i = 0; i < 60 && good; i++)
            good = child_can_tell();
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(parent, &status, 0), parent);
    assert_int_equal(status, 0);
}

/* ---- memory -------------------------------------------------------------- */

/* Of a thread that was about to tell it when the recording ended. */
static void what_comes_after_the_end_has_no_number(void **state)
{
    void *block;
    bool found = false;
    lsi_memory_file *file = NULL;
    (void)state;
    assert_ok(ls_memory_record_start(""));
    const lsi_memory_place before =
        lsi_memory_enter_operation(lsi_memory_path(), "ends late", "");
    lsi_memory_enter_range("range of before");
    assert_ok(ls_memory_record_stop());
    lsi_memory_leave_range();
    lsi_memory_enter_range("late range");
    (void)lsi_memory_enter_phase("late phase");
    assert_ok(ls_memory_record_start(path));
    lsi_memory_leave_operation(before);
    lsi_memory_enter_range("late range");
    const uint32_t outer = lsi_memory_enter_phase("late phase");
    assert_ok(lsi_alloc(&block, 1000, LS_MEMORY_OTHER, "a block"));
    lsi_free(block);
    lsi_memory_leave_phase(outer);
    lsi_memory_leave_range();
    assert_ok(ls_memory_record_stop());
    assert_ok(lsi_memory_read(path, &file));
    for (size_t i = 0; i < file->n_blocks; i++) {
        char text[64];
        lsi_memory_path_text(file, file->blocks[i].path, text, sizeof text);
        if (strcmp(text, "late range") == 0 &&
            strcmp(lsi_memory_text(file, file->blocks[i].phase),
                   "late phase") == 0)
            found = true;
    }
    assert_true(found);
    lsi_memory_file_free(&file);
}

int main(void)
{
    unsetenv("LOCKSTEP_TRACE");
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(a_child_can_tell_its_rank), /* first: nothing is recorded yet */
        TEST(a_late_span_leaves_the_file_alone),
        TEST(threads_may_record_until_the_end_and_beyond),
        TEST(what_comes_after_the_end_has_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

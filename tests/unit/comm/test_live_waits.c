/*
 * A rank that waits for long shows this to `lockstep top`, in any
 * program, also one that steps no optimizer.
 */
#include "testing.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/live_pages.h"
#include "ranks.h"

enum { COUNT = 4, SECONDS = 30 };

/* State that the ranks and the test share. */
typedef struct scene {
    atomic_int come; /* rank 1 may */
    void (*wait)(ls_group *group);
    const char *call;
} scene;

static void in_all_reduce(ls_group *group)
{
    float x[COUNT] = {0};
    CHECK_OK(ls_all_reduce(group, x, x, COUNT, LS_F32, LS_REDUCE_SUM));
}

static void in_a_message(ls_group *group)
{
    double x[COUNT] = {0};
    if (ls_group_rank(group) == 0)
        CHECK_OK(ls_recv(group, x, COUNT, LS_F64, 1, 0));
    else
        CHECK_OK(ls_send(group, x, COUNT, LS_F64, 0, 0));
}

/* By testing, as programs do that have other work as well. */
static void in_tests(ls_group *group)
{
    double x[COUNT] = {0};
    ls_request *request = NULL;
    ls_status status = LS_IN_PROGRESS;
    if (ls_group_rank(group) != 0) {
        CHECK_OK(ls_send(group, x, COUNT, LS_F64, 0, 0));
        return;
    }
    CHECK_OK(ls_irecv(group, x, COUNT, LS_F64, 1, 0, &request));
    while (status == LS_IN_PROGRESS)
        status = ls_test(request);
    CHECK_OK(status);
    ls_request_free(&request);
}

static scene *make_scene(const scene *from)
{
    void *const at = mmap(NULL, sizeof(scene), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    scene *const made = at;
    *made = *from;
    return made;
}

static void play(ls_group *group, void *argument)
{
    scene *const s = argument;
    lsi_live_page *page = NULL;
    lsi_live_look look;
    while (ls_group_rank(group) == 1 && atomic_load(&s->come) == 0)
        sched_yield();
    s->wait(group);
    if (ls_group_rank(group) != 0)
        return;
    CHECK_OK(lsi_live_open(&page, getpid()));
    lsi_live_read(page, &look);
    CHECK(look.waiting_ns == 0);
    lsi_live_close(&page);
}

/* Until a wait is shown. */
static void look_at(pid_t pid, lsi_live_look *look)
{
    const double end = lsi_clock_seconds() + SECONDS;
    lsi_live_page *page = NULL;
    *look = (lsi_live_look){0};
    while (look->waiting_ns == 0) {
        assert_true(lsi_clock_seconds() < end);
        sched_yield();
        if (page == NULL && lsi_live_open(&page, pid) != LS_OK)
            continue;
        lsi_live_read(page, look);
    }
    lsi_live_close(&page);
}

static void a_wait_is_shown(void **state)
{
    static const scene scenes[] = {
        {.wait = in_all_reduce, .call = "#5 all_reduce of 4 f32 (sum)"},
        {.wait = in_a_message, .call = "recv of 4 f64"},
        {.wait = in_tests, .call = "recv of 4 f64"}};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(scenes); i++) {
        scene *const s = make_scene(&scenes[i]);
        lsi_live_look look;
        pid_t pids[2];
        char text[LSI_LIVE_TEXT], want[LSI_LIVE_TEXT];
        start_processes(2, play, s, pids);
        look_at(pids[0], &look);
        assert_string_equal(look.call, s->call);
        assert_int_equal(look.awaits, 1);
        assert_int_equal(look.rank, 0);
        assert_true(lsi_live_text(&look, text) >= 0.05);
        snprintf(want, sizeof(want), "in %s, waiting for rank 1", s->call);
        assert_string_equal(text, want);
        atomic_store(&s->come, 1);
        assert_int_equal(wait_process(pids[0]), 0);
        assert_int_equal(wait_process(pids[1]), 0);
        munmap(s, sizeof(*s));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

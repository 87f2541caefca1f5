/*
 * The all-gather over a store, among ranks that are threads and a store that is
 * a list in this process.
 */
#include "testing.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "comm/bootstrap/store_gather.h"

enum { MOST_RANKS = 8, MOST_BYTES = 60000 };

/* ---- the store ----------------------------------------------------------- */

typedef struct entry {
    struct entry *next;
    char key[LSI_STORE_KEY_BYTES + 1];
    size_t bytes;
    unsigned char data[];
} entry;

typedef struct list {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    entry *first; /* newest */
    bool gone;
    bool far;     /* it takes longer to ask than some want to wait */
    bool is_late; /* the first answer about what rank 0 has left */
    atomic_bool rank_0_over;
} list;

static list there = {.lock = PTHREAD_MUTEX_INITIALIZER,
                     .changed = PTHREAD_COND_INITIALIZER};

static ls_status set(void *context, const char *key, const void *data,
                     size_t bytes)
{
    list *l = context;
    entry *e = malloc(sizeof(*e) + bytes);
    if (e == NULL || bytes > LSI_STORE_VALUE_BYTES ||
        strlen(key) > LSI_STORE_KEY_BYTES || strchr(key, ' ') != NULL)
        abort();
    strcpy(e->key, key);
    e->bytes = bytes;
    memcpy(e->data, data, bytes);
    pthread_mutex_lock(&l->lock);
    e->next = l->first;
    l->first = e;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return LS_OK;
}

static const entry *find(const list *l, const char *key)
{
    for (const entry *e = l->first; e != NULL; e = e->next)
        if (strcmp(e->key, key) == 0)
            return e;
    return NULL;
}

static ls_status get(void *context, const char *key, void *data, size_t *bytes,
                     double seconds)
{
    list *l = context;
    struct timespec until;
    int late = 0;
    const entry *e;
    ls_status status = LS_OK;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(seconds * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (l->far && seconds < 0.005)
        return lsi_fail(LS_ERR_TIMEOUT, "nobody has answered about %s", key);
    pthread_mutex_lock(&l->lock);
    const bool is_late = l->is_late && strstr(key, "/all0") != NULL;
    l->is_late = l->is_late && !is_late;
    pthread_mutex_unlock(&l->lock);
    while (is_late && !atomic_load(&l->rank_0_over))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (is_late)
        return lsi_fail(LS_ERR_TIMEOUT, "nobody has set %s", key);
    pthread_mutex_lock(&l->lock);
    while ((e = find(l, key)) == NULL && late == 0 && !l->gone)
        late = pthread_cond_timedwait(&l->changed, &l->lock, &until);
    if (l->gone)
        status = lsi_fail(LS_ERR_PEER_DEAD, "the store is gone");
    else if (e == NULL)
        status = lsi_fail(LS_ERR_TIMEOUT, "nobody has set %s", key);
    else if (e->bytes > *bytes)
        status = lsi_fail(LS_ERR_ARGUMENT, "no room for %s", key);
    else {
        memcpy(data, e->data, e->bytes);
        *bytes = e->bytes;
    }
    pthread_mutex_unlock(&l->lock);
    return status;
}

static const ls_store store = {.context = &there, .set = set, .get = get};

static int forget(void **state)
{
    (void)state;
    while (there.first != NULL) {
        entry *next = there.first->next;
        free(there.first);
        there.first = next;
    }
    there.gone = there.far = false;
    return 0;
}

/* ---- ranks --------------------------------------------------------------- */

/* One rank: what it has been told, and what comes of it. */
typedef struct player {
    int rank, size, calls;
    size_t bytes;
    double seconds;
    ls_status status;
    char said[512];
    pthread_t thread;
} player;

static unsigned char value_of(int rank, int call, size_t i)
{
    return (unsigned char)(rank * 31 + call * 7 + (int)(i % 251));
}

static bool is_right(const player *p, const unsigned char *all, int call)
{
    for (int r = 0; r < p->size; r++)
        for (size_t i = 0; i < p->bytes; i++)
            if (all[(size_t)r * p->bytes + i] != value_of(r, call, i))
                return false;
    return true;
}

static void *play(void *argument)
{
    player *p = argument;
    unsigned char *own = malloc(p->bytes + 1);
    unsigned char *all = malloc((size_t)p->size * p->bytes + 1);
    lsi_store_gather gather = {
        .store = &store, .job = "test", .rank = p->rank, .size = p->size};
    for (int call = 0; p->status == LS_OK && call < p->calls; call++) {
        for (size_t i = 0; i < p->bytes; i++)
            own[i] = value_of(p->rank, call, i);
        p->status =
            lsi_store_gather_all(&gather, own, p->bytes, all, p->seconds);
        if (p->status != LS_OK)
            snprintf(p->said, sizeof(p->said), "%s", ls_last_error());
        else if (!is_right(p, all, call))
            p->status = LS_ERR_SYSTEM;
    }
    lsi_store_gather_end(&gather);
    if (p->rank == 0)
        atomic_store(&there.rank_0_over, true);
    free(own);
    free(all);
    return NULL;
}

static void play_all(player *players, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(
            pthread_create(&players[i].thread, NULL, play, &players[i]), 0);
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_join(players[i].thread, NULL), 0);
}

static void assert_says(const player *p, ls_status status, const char *part)
{
    if (p->status != status || strstr(p->said, part) == NULL)
        fail_msg("rank %d: %s, \"%s\"", p->rank, ls_status_name(p->status),
                 p->said);
}

/* ---- tests --------------------------------------------------------------- */

static void all_get_what_all_send(void **state)
{
    static const int sizes[] = {1, 2, 3, 5, 8};
    static const size_t bytes[] = {0, 1, 7, 4096, MOST_BYTES};
    for (size_t s = 0; s < TEST_COUNT(sizes); s++)
        for (size_t b = 0; b < TEST_COUNT(bytes); b++) {
            player players[MOST_RANKS];
            for (int r = 0; r < sizes[s]; r++)
                players[r] = (player){.rank = r,
                                      .size = sizes[s],
                                      .calls = 3,
                                      .bytes = bytes[b],
                                      .seconds = r % 2 == 0 ? 30 : 0};
            play_all(players, sizes[s]);
            for (int r = 0; r < sizes[s]; r++)
                assert_int_equal(players[r].status, LS_OK);
            forget(state);
        }
}

/* Whether these two are missed by each of the others. */
static bool play_without_two(double seconds)
{
    player players[] = {{.rank = 0, .size = 5, .calls = 1, .seconds = seconds},
                        {.rank = 2, .size = 5, .calls = 1, .seconds = seconds},
                        {.rank = 4, .size = 5, .calls = 1, .seconds = seconds}};
    char text[96];
    bool named = true;
    play_all(players, 3);
    snprintf(text, sizeof(text),
             "2 of 5 ranks did not join within %g s: rank 1, rank 3", seconds);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(players[i].status, LS_ERR_TIMEOUT);
        named = named && strstr(players[i].said, text) != NULL;
    }
    return named;
}

/*
 * On a busy machine some time can be too short for another rank to come at all,
 * so what is said counts only if no longer time changes that.
 */
static void expect_with_time(bool (*is_good)(double), void **state)
{
    static const double seconds[] = {0.3, 1.2, 4.8};
    bool good = false;
    for (size_t i = 0; i < TEST_COUNT(seconds) && !good; i++) {
        forget(state);
        good = is_good(seconds[i]);
    }
    assert_true(good);
}

static void those_who_do_not_come_are_named(void **state)
{
    expect_with_time(play_without_two, state);
}

static void rank_0_may_be_missing(void **state)
{
    player players[] = {{.rank = 1, .size = 3, .calls = 1, .seconds = 0.2},
                        {.rank = 2, .size = 3, .calls = 1, .seconds = 0.2}};
    (void)state;
    play_all(players, 2);
    for (int i = 0; i < 2; i++)
        assert_says(&players[i], LS_ERR_TIMEOUT,
                    "1 of 3 ranks did not join within 0.2 s: rank 0");
}

static void other_worlds_are_told(void **state)
{
    player players[] = {{.rank = 0, .size = 2, .calls = 1, .seconds = 30},
                        {.rank = 1, .size = 4, .calls = 1, .seconds = 30},
                        {.rank = 3, .size = 4, .calls = 1, .seconds = 30}};
    (void)state;
    play_all(players, 3);
    assert_says(&players[0], LS_ERR_MISMATCH,
                "rank 1 was started with 4 ranks, rank 0 with 2");
    assert_says(&players[1], LS_ERR_MISMATCH, "rank 0 with 2");
    assert_says(&players[2], LS_ERR_MISMATCH,
                "rank 3 was started with 4 ranks, rank 0 with 2");
}

static void two_of_a_rank_are_told(void **state)
{
    player players[] = {{.rank = 0, .size = 2, .calls = 1, .seconds = 30},
                        {.rank = 1, .size = 2, .calls = 1, .seconds = 30},
                        {.rank = 1, .size = 2, .calls = 1, .seconds = 30}};
    (void)state;
    play_all(players, 3);
    assert_true(players[1].status != LS_OK || players[2].status != LS_OK);
    for (int i = 1; i < 3; i++)
        if (players[i].status != LS_OK)
            assert_says(&players[i], LS_ERR_MISMATCH,
                        "two processes were started as rank 1");
}

/* Whether one of two that come as the same rank hears of the other. */
static bool play_a_rank_twice(double seconds)
{
    player players[] = {{.rank = 0, .size = 2, .calls = 1, .seconds = seconds},
                        {.rank = 0, .size = 2, .calls = 1, .seconds = seconds}};
    int told = 0;
    play_all(players, 2);
    for (int i = 0; i < 2; i++) {
        if (players[i].status == LS_ERR_MISMATCH) {
            assert_says(&players[i], LS_ERR_MISMATCH,
                        "two processes were started as rank 0");
            told++;
        } else {
            assert_says(&players[i], LS_ERR_TIMEOUT, "rank 1");
        }
    }
    return told > 0;
}

/* A process that arrives with a rank already present leaves another rank
 * missing. */
static void two_of_a_rank_and_none_of_another(void **state)
{
    expect_with_time(play_a_rank_twice, state);
}

static void other_lengths_are_told(void **state)
{
    player players[] = {
        {.rank = 0, .size = 2, .calls = 1, .seconds = 30, .bytes = 8},
        {.rank = 1, .size = 2, .calls = 1, .seconds = 30, .bytes = 16}};
    for (int times = 0; times < 2; times++) {
        play_all(players, 2);
        for (int i = 0; i < 2; i++) {
            assert_says(&players[i], LS_ERR_MISMATCH, "same version");
            players[i] = (player){.rank = i,
                                  .size = 2,
                                  .calls = 1,
                                  .seconds = 30,
                                  .bytes = i == 0 ? 16 : 8};
        }
        forget(state);
    }
}

/* A rank that arrived and died is named by ranks that wait for others. */
static void one_that_has_gone_since_is_named(void **state)
{
    for (int gone = 0; gone < 2; gone++) {
        player players[] = {{.rank = 0, .size = 4, .calls = 1, .seconds = 30},
                            {.rank = 1, .size = 4, .calls = 1, .seconds = 30},
                            {.rank = 3, .size = 4, .calls = 1, .seconds = 30}};
        char text[64];
        players[gone].seconds = 0.05;
        play_all(players, 3);
        snprintf(text, sizeof(text), "rank %d died, or gave up,", gone);
        assert_int_equal(players[gone].status, LS_ERR_TIMEOUT);
        for (int i = gone == 0 ? 3 : 0; i < 3; i++)
            if (i != gone)
                assert_says(&players[i], LS_ERR_PEER_DEAD, text);
        forget(state);
    }
}

/* The same between two calls: nothing of it is in the second. */
static void one_that_goes_between_calls_is_named(void **state)
{
    for (int gone = 0; gone < 2; gone++) {
        player players[] = {{.rank = 0, .size = 3, .calls = 2, .seconds = 30},
                            {.rank = 1, .size = 3, .calls = 2, .seconds = 30},
                            {.rank = 2, .size = 3, .calls = 2, .seconds = 30}};
        char text[64];
        players[gone].calls = 1;
        play_all(players, 3);
        snprintf(text, sizeof(text), "rank %d died, or gave up,", gone);
        assert_int_equal(players[gone].status, LS_OK);
        for (int i = 0; i < 3; i++)
            if (i != gone)
                assert_says(&players[i], LS_ERR_PEER_DEAD, text);
        forget(state);
    }
}

/* Rank 0 is through, and gone, before rank 1 has heard of it. */
static void one_that_is_through_has_not_died(void **state)
{
    player players[] = {{.rank = 0, .size = 2, .calls = 1, .seconds = 30},
                        {.rank = 1, .size = 2, .calls = 1, .seconds = 30}};
    (void)state;
    there.far = there.is_late = true;
    atomic_store(&there.rank_0_over, false);
    play_all(players, 2);
    assert_int_equal(players[0].status, LS_OK);
    assert_int_equal(players[1].status, LS_OK);
}

static void a_store_that_is_gone_is_told(void **state)
{
    player players[] = {{.rank = 0, .size = 2, .calls = 1, .seconds = 30},
                        {.rank = 1, .size = 2, .calls = 1, .seconds = 30}};
    (void)state;
    there.gone = true;
    play_all(players, 2);
    for (int i = 0; i < 2; i++)
        assert_says(&players[i], LS_ERR_PEER_DEAD, "the store is gone");
}

static void too_much_is_refused(void **state)
{
    player big = {
        .rank = 0, .size = 1, .calls = 1, .bytes = LSI_STORE_VALUE_BYTES};
    (void)state;
    play_all(&big, 1);
    assert_says(&big, LS_ERR_ARGUMENT,
                "but a value of the rendezvous store can hold at most");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(all_get_what_all_send, forget),
        cmocka_unit_test_teardown(those_who_do_not_come_are_named, forget),
        cmocka_unit_test_teardown(rank_0_may_be_missing, forget),
        cmocka_unit_test_teardown(other_worlds_are_told, forget),
        cmocka_unit_test_teardown(two_of_a_rank_are_told, forget),
        cmocka_unit_test_teardown(two_of_a_rank_and_none_of_another, forget),
        cmocka_unit_test_teardown(other_lengths_are_told, forget),
        cmocka_unit_test_teardown(one_that_has_gone_since_is_named, forget),
        cmocka_unit_test_teardown(one_that_goes_between_calls_is_named, forget),
        cmocka_unit_test_teardown(one_that_is_through_has_not_died, forget),
        cmocka_unit_test_teardown(a_store_that_is_gone_is_told, forget),
        cmocka_unit_test_teardown(too_much_is_refused, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * All groups of the process that have joined are in one short list. The mover
 * of a group is recorded as a thread's number, which is never used again. So a
 * thread may end although groups record it as their mover. A lock guards the
 * list and is held for moments only. A thread borrows groups before it moves
 * them; a thread that takes a borrowed group waits for its return.
 */
#include "comm/core/coprogress.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/held.h"
#include "comm/core/engine.h"
#include "comm/health/failure.h"
#include "comm/state/bell.h"

enum { TEXT_BYTES = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
static ls_group *members;

static _Thread_local uint64_t own_number;
static _Thread_local int own_members; /* or more: others may have taken some */

static uint64_t self(void)
{
    static _Atomic uint64_t last;
    if (own_number == 0)
        own_number = atomic_fetch_add(&last, 1) + 1;
    return own_number;
}

static bool is_own(const ls_group *group)
{
    return atomic_load_explicit(&group->coprogress.mover,
                                memory_order_relaxed) == self();
}

/* ---- forks --------------------------------------------------------------- */

/* The groups are the parent's; a child must not move what is in flight. */
static void in_child(void)
{
    for (ls_group *group = members; group != NULL;
         group = group->coprogress.next_member) {
        atomic_store(&group->coprogress.mover, 0);
        group->coprogress.borrowed = 0;
    }
    members = NULL;
    own_members = 0;
    returned = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

static lsi_fork_guard fork_guard = {.lock = &lock, .in_child = in_child};

/* ---- borrowing ----------------------------------------------------------- */

/*
 * Whether this thread has borrowed the group. Then a function of the program,
 * called by this thread, may use it although another thread waits for it.
 */
static bool is_held(const ls_group *group)
{
    assert(lsi_mutex_held(&lock));
    return group->coprogress.borrowed > 0 && group->coprogress.holder == self();
}

static void lend(ls_group *group)
{
    assert(lsi_mutex_held(&lock));
    assert(group->coprogress.borrowed == 0 || is_held(group));
    group->coprogress.borrowed++;
    group->coprogress.holder = self();
}

/* ---- joining and leaving ------------------------------------------------- */

void lsi_coprogress_join(ls_group *group)
{
    if (is_own(group))
        return;
    lsi_guard_forks(&fork_guard);
    pthread_mutex_lock(&lock);
    if (!is_held(group)) {
        assert(atomic_load(&group->coprogress.mover) == 0);
        group->coprogress.next_member = members;
        members = group;
        atomic_store(&group->coprogress.mover, self());
        own_members++;
    }
    pthread_mutex_unlock(&lock);
}

/* Removes the group from the list. Releases this thread's stores. */
static void strike(ls_group *group)
{
    ls_group **link = &members;
    assert(lsi_mutex_held(&lock) && is_own(group));
    while (*link != group)
        link = &(*link)->coprogress.next_member;
    *link = group->coprogress.next_member;
    atomic_store(&group->coprogress.mover, 0);
}

/*
 * Wakes the thread that has the group: it may sleep, but checks the mover
 * first.
 */
static void await_return(ls_group *group)
{
    assert(lsi_mutex_held(&lock) && is_own(group));
    if (group->coprogress.borrowed > 0)
        lsi_wake_all(group);
    while (group->coprogress.borrowed > 0)
        pthread_cond_wait(&returned, &lock);
}

void lsi_coprogress_take_over(const ls_group *group)
{
    if (is_own(group))
        return;
    pthread_mutex_lock(&lock);
    ls_group *found = members;
    while (found != NULL && found != group)
        found = found->coprogress.next_member;
    if (found != NULL && !is_held(found)) {
        atomic_store(&found->coprogress.mover, self());
        own_members++;
        await_return(found);
    }
    pthread_mutex_unlock(&lock);
}

void lsi_coprogress_leave(ls_group *group)
{
    lsi_coprogress_take(group);
    if (!is_own(group))
        return;
    pthread_mutex_lock(&lock);
    assert(group->coprogress.borrowed == 0);
    strike(group);
    pthread_mutex_unlock(&lock);
    own_members--;
}

/* ---- moving -------------------------------------------------------------- */

bool lsi_coprogress_due(const ls_group *group)
{
    return own_members > 1 || (own_members == 1 && !is_own(group));
}

ls_group *lsi_coprogress_borrow(const ls_group *group)
{
    ls_group *borrowed = NULL;
    pthread_mutex_lock(&lock);
    own_members = 0;
    for (ls_group *other = members; other != NULL;
         other = other->coprogress.next_member) {
        if (!is_own(other))
            continue;
        own_members++;
        if (other == group)
            continue;
        lend(other);
        other->coprogress.next_borrowed = borrowed;
        borrowed = other;
    }
    pthread_mutex_unlock(&lock);
    return borrowed;
}

/* A failure in one group is not reported to a thread that waits in another. */
static void progress(ls_group *group)
{
    char text[TEXT_BYTES];
    assert(group->coprogress.holder == self());
    snprintf(text, sizeof(text), "%s", ls_last_error());
    if (lsi_progress(group) != LS_OK)
        lsi_restore_error(text);
}

bool lsi_coprogress_run(ls_group *borrowed)
{
    bool moved = false;
    for (ls_group *group = borrowed; group != NULL;
         group = group->coprogress.next_borrowed) {
        const uint64_t activity = group->activity;
        if (!group->failed)
            progress(group);
        moved = moved || group->activity != activity;
    }
    return moved;
}

static bool is_idle(const ls_group *group)
{
    return group->completions == NULL &&
           (group->failed ||
            (group->queue.first == NULL && group->streams.active == NULL));
}

static bool is_due(const ls_group *group)
{
    for (const lsi_on_done *c = group->completions; c != NULL; c = c->next)
        if (*c->done || group->failed)
            return true;
    return false;
}

/* A group that is borrowed already is so by this thread (lend), whose functions
 * may use it. */
ls_group *lsi_coprogress_borrow_completed(const ls_group *group)
{
    if (!lsi_coprogress_due(group))
        return NULL;
    pthread_mutex_lock(&lock);
    ls_group *other = members;
    while (other != NULL &&
           (other == group || !is_own(other) || !is_due(other)))
        other = other->coprogress.next_member;
    if (other != NULL)
        lend(other);
    pthread_mutex_unlock(&lock);
    return other;
}

static void give_back(ls_group *group)
{
    assert(is_held(group));
    if (--group->coprogress.borrowed == 0 && is_own(group) && is_idle(group)) {
        strike(group);
        own_members--;
    }
}

void lsi_coprogress_return_one(ls_group *borrowed)
{
    pthread_mutex_lock(&lock);
    give_back(borrowed);
    pthread_cond_broadcast(&returned);
    pthread_mutex_unlock(&lock);
}

void lsi_coprogress_return(ls_group *borrowed)
{
    if (borrowed == NULL)
        return;
    pthread_mutex_lock(&lock);
    for (ls_group *group = borrowed, *next; group != NULL; group = next) {
        next = group->coprogress.next_borrowed;
        give_back(group);
    }
    pthread_cond_broadcast(&returned);
    pthread_mutex_unlock(&lock);
}

bool lsi_coprogress_wanted(const ls_group *borrowed)
{
    for (const ls_group *group = borrowed; group != NULL;
         group = group->coprogress.next_borrowed)
        if (atomic_load(&group->coprogress.mover) != self())
            return true;
    return false;
}

bool lsi_coprogress_move(const ls_group *group)
{
    ls_group *borrowed = lsi_coprogress_borrow(group);
    const bool moved = lsi_coprogress_run(borrowed);
    lsi_coprogress_return(borrowed);
    return moved;
}

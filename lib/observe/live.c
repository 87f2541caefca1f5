#include "observe/live.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/held.h"
#include "lockstep/profile.h"
#include "observe/chunks.h"
#include "observe/spans.h"

_Static_assert((int)LSI_LIVE_TAGS == LS_MEMORY_TAG_COUNT,
               "a live page has one slot for each memory tag");

enum { DEEPEST = 16 };

/* NULL: none yet, or there can be none. Others than the owner only read it. */
static _Atomic(lsi_live_page *) own_page;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool refused;
static int descriptor = -1;
static struct stat identity; /* of the descriptor; programs close others' */
static pthread_t owner;      /* the first thread that takes steps */
static _Atomic bool owned;   /* there is one */
static _Atomic uint64_t early_samples; /* before there was a page */

/* Of the owner: its open phases, and up to when its time is accounted for. */
static uint64_t stack[DEEPEST];
static unsigned depth;
static uint64_t since;
static uint64_t busy[LSI_LIVE_PHASES];

#define SET(field, value)                                                      \
    atomic_store_explicit(&page->field, (value), memory_order_release)
#define GET(field) atomic_load_explicit(&page->field, memory_order_relaxed)

/* ---- the page ------------------------------------------------------------ */

/* The page is the parent's. */
static void in_child(void)
{
    lsi_live_page *const page = atomic_exchange(&own_page, NULL);
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    if (page == NULL)
        return;
    struct stat now;
    munmap(page, sizeof(*page));
    if (fstat(descriptor, &now) == 0 && now.st_dev == identity.st_dev &&
        now.st_ino == identity.st_ino)
        close(descriptor);
    atomic_store(&owned, false);
    depth = 0;
}

static lsi_fork_guard fork_guard = {.in_child = in_child};

/*
 * The descriptor stays open: by it the page is found. Readers that map it rely
 * on its length.
 */
static void *map_page(void)
{
    const int fd = memfd_create(LSI_LIVE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *at = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof(lsi_live_page)) == 0 &&
        fstat(fd, &identity) == 0 &&
        fcntl(fd, F_ADD_SEALS, LSI_LIVE_SEALS) == 0)
        at = mmap(NULL, sizeof(lsi_live_page), PROT_READ | PROT_WRITE,
                  MAP_SHARED, fd, 0);
    if (at == MAP_FAILED && fd >= 0)
        close(fd);
    descriptor = fd;
    return at;
}

static lsi_live_page *get_page(void)
{
    return atomic_load_explicit(&own_page, memory_order_acquire);
}

/* NULL without memory for it. */
static lsi_live_page *make_page(void)
{
    assert(lsi_mutex_held(&lock) && get_page() == NULL);
    void *const at = map_page();
    refused = at == MAP_FAILED;
    if (refused)
        return NULL;
    lsi_guard_forks(&fork_guard);
    lsi_live_page *const page = at;
    page->pid = (int32_t)getpid();
    lsi_get_rank(&page->rank, &page->size);
    snprintf(page->name[0], LSI_LIVE_NAME_BYTES, "outside of phases");
    SET(names, 1);
    SET(samples, atomic_load(&early_samples));
    page->version = LSI_LIVE_VERSION;
    atomic_store_explicit(&own_page, page, memory_order_release);
    return page;
}

static lsi_live_page *get_or_make_page(void)
{
    lsi_live_page *page = get_page();
    if (page != NULL)
        return page;
    pthread_mutex_lock(&lock);
    page = get_page();
    if (page == NULL && !refused)
        page = make_page();
    pthread_mutex_unlock(&lock);
    return page;
}

void lsi_live_begin(void)
{
    (void)get_or_make_page();
}

static uint64_t phase_of(lsi_live_page *page, const char *name)
{
    const uint64_t n = GET(names);
    for (uint64_t i = 0; i < n; i++)
        if (strncmp(page->name[i], name, LSI_LIVE_NAME_BYTES - 1) == 0)
            return i;
    if (n == LSI_LIVE_PHASES)
        return 0;
    snprintf(page->name[n], LSI_LIVE_NAME_BYTES, "%s", name);
    atomic_store_explicit(&page->names, n + 1, memory_order_release);
    return n;
}

/* ---- phases -------------------------------------------------------------- */

/* Time since the last change was spent in the phase that is entered last. */
static uint64_t account_time(lsi_live_page *page)
{
    const uint64_t now = lsi_clock_ns();
    const unsigned at = depth < DEEPEST ? depth : DEEPEST - 1;
    if (GET(waits_ns) != 0)
        SET(waited_ns, GET(waited_ns) + now - since);
    else
        busy[stack[at]] += now - since;
    since = now;
    return now;
}

/* The page, if a reader watches it and this thread owns it; else NULL. */
static lsi_live_page *watched_page(void)
{
    lsi_live_page *const page = get_page();
    return page != NULL && GET(watched_ns) != 0 &&
                   pthread_equal(owner, pthread_self())
               ? page
               : NULL;
}

static void show_phase(lsi_live_page *page, uint64_t now)
{
    SET(phase, stack[depth < DEEPEST ? depth : DEEPEST - 1]);
    SET(phase_ns, now);
}

void lsi_live_enter(bool phase, const char *name)
{
    lsi_live_page *const page = watched_page();
    if (page == NULL)
        return;
    const uint64_t now = account_time(page);
    if (!phase) {
        SET(waits_ns, now);
        return;
    }
    depth++;
    if (depth < DEEPEST)
        stack[depth] = phase_of(page, name);
    show_phase(page, now);
}

/* Phases entered before a reader watched do not count. */
void lsi_live_leave(bool phase)
{
    lsi_live_page *const page = watched_page();
    if (page == NULL)
        return;
    const uint64_t now = account_time(page);
    if (!phase)
        SET(waits_ns, 0);
    else if (depth > 0)
        depth--;
    if (phase)
        show_phase(page, now);
}

/* ---- steps --------------------------------------------------------------- */

static void publish_memory(lsi_live_page *page)
{
    ls_memory_stats memory;
    for (int tag = 0; tag < LSI_LIVE_TAGS; tag++) {
        ls_memory_of((ls_memory_tag)tag, &memory);
        SET(memory[tag], memory.live_bytes);
    }
    ls_memory_total(&memory);
    SET(peak, memory.peak_bytes);
}

/* Starts or stops publishing at the end of a step, when no phase is open. */
static void update_watched(lsi_live_page *page)
{
    const uint64_t looked = GET(looked_ns);
    const uint64_t now = looked == 0 ? 0 : lsi_clock_ns();
    const bool watched =
        looked != 0 && (looked >= now || now - looked < LSI_LIVE_LOOKS);
    if (watched == (GET(watched_ns) != 0))
        return;
    depth = 0;
    since = now;
    SET(waits_ns, 0);
    SET(watched_ns, watched ? now : 0);
    SET(phase, 0);
    SET(phase_ns, now);
    lsi_span_want(LSI_SPAN_TO_LIVE, watched);
}

static void publish_step(lsi_live_page *page)
{
    /* A reader that sees a later store also sees this one: all are releases. */
    SET(changes, GET(changes) + 1);
    if (GET(watched_ns) != 0)
        (void)account_time(page);
    for (int i = 0; i < LSI_LIVE_PHASES; i++) {
        SET(busy_ns[i], busy[i]);
        busy[i] = 0;
    }
    publish_memory(page);
    SET(steps, GET(steps) + 1);
    SET(changes, GET(changes) + 1);
}

static bool is_owner(void)
{
    if (!atomic_load_explicit(&owned, memory_order_acquire)) {
        pthread_mutex_lock(&lock);
        if (!atomic_load(&owned))
            owner = pthread_self();
        atomic_store(&owned, true);
        pthread_mutex_unlock(&lock);
    }
    return pthread_equal(owner, pthread_self());
}

void lsi_live_step(void)
{
    lsi_live_page *const page = get_or_make_page();
    if (page == NULL || !is_owner())
        return;
    publish_step(page);
    update_watched(page);
}

void lsi_live_add_samples(double samples)
{
    const uint64_t n = samples > 0 ? (uint64_t)samples : 0;
    lsi_live_page *const page = get_page();
    if (page == NULL)
        atomic_fetch_add_explicit(&early_samples, n, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&page->samples, n, memory_order_relaxed);
}

/* ---- waiting for long ---------------------------------------------------- */

/* NULL if all places are taken. */
static lsi_live_wait *find_place(lsi_live_page *page, unsigned *place)
{
    assert(lsi_mutex_held(&lock));
    for (unsigned i = 0; i < LSI_LIVE_WAITS && *place == 0; i++)
        if (GET(wait[i].since_ns) == 0)
            *place = i + 1;
    return *place == 0 ? NULL : &page->wait[*place - 1];
}

void lsi_live_waits(const lsi_live_waiting *waiting, unsigned *place)
{
    lsi_live_page *const page = get_or_make_page();
    if (page == NULL)
        return;
    pthread_mutex_lock(&lock);
    lsi_live_wait *const wait = find_place(page, place);
    if (wait != NULL) {
        (void)atomic_fetch_add(&wait->changes, 1);
        wait->awaits = waiting->awaits;
        wait->tests = waiting->tests;
        snprintf(wait->call, sizeof(wait->call), "%s", waiting->call);
        atomic_store(&wait->since_ns, waiting->since_ns);
        atomic_store(&wait->seen_ns, lsi_clock_ns());
        (void)atomic_fetch_add(&wait->changes, 1);
    }
    pthread_mutex_unlock(&lock);
}

void lsi_live_waited(unsigned *place)
{
    lsi_live_page *const page = get_page();
    if (*place != 0 && page != NULL)
        SET(wait[*place - 1].since_ns, 0);
    *place = 0;
}

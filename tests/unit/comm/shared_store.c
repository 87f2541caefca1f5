#include "shared_store.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "ranks.h"

enum { ENTRIES = 1024, KEY = 128, VALUE = 16 * 1024 };

typedef struct entry {
    char key[KEY];
    size_t bytes;
    unsigned char value[VALUE];
} entry;

/* A process that is killed does not hold the lock: it polls. */
static struct table {
    atomic_flag lock;
    int n; /* of all that were ever set; the oldest make room */
    bool overwrites;
    _Atomic int set_status, get_status;
    entry entries[ENTRIES];
} * table;

static void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static void lock(void)
{
    while (atomic_flag_test_and_set(&table->lock))
        nap();
}

static void unlock(void)
{
    atomic_flag_clear(&table->lock);
}

static const entry *find(const char *key)
{
    for (int i = table->n; i > 0 && i > table->n - ENTRIES; i--)
        if (strcmp(table->entries[(i - 1) % ENTRIES].key, key) == 0)
            return &table->entries[(i - 1) % ENTRIES];
    return NULL;
}

static ls_status set(void *context, const char *key, const void *data,
                     size_t bytes)
{
    (void)context;
    CHECK(strlen(key) < KEY && bytes <= VALUE && strchr(key, ' ') == NULL);
    if (atomic_load(&table->set_status) != LS_OK)
        return (ls_status)atomic_load(&table->set_status);
    lock();
    CHECK(table->overwrites || find(key) == NULL);
    entry *e = &table->entries[table->n++ % ENTRIES];
    strcpy(e->key, key);
    if (bytes != 0)
        memcpy(e->value, data, bytes);
    e->bytes = bytes;
    unlock();
    return LS_OK;
}

static ls_status take(const char *key, void *data, size_t *bytes)
{
    ls_status status = LS_ERR_TIMEOUT;
    lock();
    const entry *e = find(key);
    if (e != NULL && e->bytes > *bytes)
        status = LS_ERR_ARGUMENT;
    else if (e != NULL) {
        memcpy(data, e->value, e->bytes);
        *bytes = e->bytes;
        status = LS_OK;
    }
    unlock();
    return status;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static ls_status get(void *context, const char *key, void *data, size_t *bytes,
                     double seconds)
{
    const double until = now() + seconds;
    (void)context;
    for (;;) {
        if (atomic_load(&table->get_status) != LS_OK)
            return (ls_status)atomic_load(&table->get_status);
        const ls_status status = take(key, data, bytes);
        if (status != LS_ERR_TIMEOUT || (seconds != 0 && now() > until))
            return status;
        nap();
    }
}

const ls_store *new_shared_store(void)
{
    static const ls_store store = {.set = set, .get = get};
    if (table != NULL)
        munmap(table, sizeof(*table));
    void *at = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    table = at;
    return &store;
}

int count_shared_store(void)
{
    lock();
    const int n = table->n;
    unlock();
    return n;
}

void let_shared_store_overwrite(void)
{
    table->overwrites = true;
}

void break_shared_store(ls_status status_of_set, ls_status status_of_get)
{
    atomic_store(&table->set_status, (int)status_of_set);
    atomic_store(&table->get_status, (int)status_of_get);
}

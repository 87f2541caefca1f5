#include "observe/memory_book.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "observe/memory_record.h"

enum { NAME_BYTES = 96, PATH_TEXT = 400 };

lsi_memory_book lsi_memory_books = {.lock = PTHREAD_MUTEX_INITIALIZER};
static lsi_memory_book *const book = &lsi_memory_books;

uint64_t lsi_memory_book_time(void)
{
    return lsi_clock_ns() - book->began_ns;
}

/* ---- things with numbers ------------------------------------------------- */

static void tell_thing(lsi_memory_lines *to, uint32_t number)
{
    const lsi_interned_thing *const thing =
        lsi_interned_at(&book->things, number);
    const lsi_memory_parts *const p = thing->data;
    const uintptr_t *const pc = thing->data;
    switch (thing->kind) {
    case LSI_MEMORY_NAME:
        lsi_memory_lines_add(to, "n %u %s\n", number, (char *)thing->data);
        return;
    case LSI_MEMORY_PATH:
        lsi_memory_lines_add(to, "p %u %u %u\n", number, p->parent, p->name);
        return;
    default:
        lsi_memory_lines_add(to, "s %u", number);
        for (size_t i = 0; i < thing->bytes / sizeof(*pc); i++)
            lsi_memory_lines_add(to, " %" PRIxPTR, pc[i]);
        lsi_memory_lines_add(to, "\n");
    }
}

uint32_t lsi_memory_book_number(char kind, const void *data, size_t bytes)
{
    bool is_new;
    if (!lsi_memory_is_recorded())
        return 0; /* a number of now would be unknown to the next file */
    const uint32_t number =
        lsi_intern(&book->things, kind, data, bytes, &is_new);
    if (is_new && book->lines != NULL)
        tell_thing(book->lines, number);
    return number;
}

/* A name is a line, so there is no end of one in it. */
uint32_t lsi_memory_book_name(const char *name, const char *suffix)
{
    char text[NAME_BYTES];
    const int n = snprintf(text, sizeof(text), "%s%s", name, suffix);
    for (char *at = text; *at != '\0'; at++)
        *at = (unsigned char)*at < ' ' ? ' ' : *at;
    return lsi_memory_book_number(LSI_MEMORY_NAME, text,
                                  n < NAME_BYTES ? (size_t)n
                                                 : (size_t)NAME_BYTES - 1);
}

/* ---- blocks -------------------------------------------------------------- */

static lsi_memory_held **bucket_of(const void *block)
{
    const uint64_t hash =
        (uint64_t)((uintptr_t)block >> 6) * UINT64_C(0x9e3779b97f4a7c15);
    return &book->buckets[hash >> 32 & (book->n_buckets - 1)];
}

static bool grow_buckets(void)
{
    lsi_memory_held **const old = book->buckets;
    const size_t n_old = book->n_buckets;
    lsi_memory_held **const larger =
        calloc(n_old > 0 ? 2 * n_old : 4096, sizeof(*old));
    if (larger == NULL)
        return old != NULL;
    book->buckets = larger;
    book->n_buckets = n_old > 0 ? 2 * n_old : 4096;
    for (size_t i = 0; i < n_old; i++) {
        for (lsi_memory_held *r = old[i], *next; r != NULL; r = next) {
            lsi_memory_held **const bucket = bucket_of(r->block);
            next = r->next;
            r->next = *bucket;
            *bucket = r;
        }
    }
    free(old);
    return true;
}

lsi_memory_held *lsi_memory_book_add(lsi_memory_held value)
{
    if (book->n_held >= book->n_buckets && !grow_buckets())
        return NULL;
    lsi_memory_held *const r = malloc(sizeof(*r));
    if (r == NULL)
        return NULL;
    lsi_memory_held **const bucket = bucket_of(value.block);
    value.next = *bucket;
    *r = value;
    *bucket = r;
    book->n_held++;
    return r;
}

lsi_memory_held **lsi_memory_book_find(const void *block)
{
    if (book->n_buckets == 0)
        return NULL;
    for (lsi_memory_held **at = bucket_of(block); *at != NULL;
         at = &(*at)->next) {
        if ((*at)->block == block)
            return at;
    }
    return NULL;
}

void lsi_memory_book_remove(lsi_memory_held **at)
{
    lsi_memory_held *const held = *at;
    *at = held->next;
    book->n_held--;
    free(held);
}

void lsi_memory_book_forget(void)
{
    for (size_t i = 0; i < book->n_buckets; i++) {
        for (lsi_memory_held *r = book->buckets[i], *next; r != NULL;
             r = next) {
            next = r->next;
            free(r);
        }
    }
    free(book->buckets);
    book->buckets = NULL;
    book->n_buckets = book->n_held = 0;
    lsi_interned_free(&book->things);
}

/* ---- snapshots ----------------------------------------------------------- */

int64_t lsi_memory_book_in_use(void)
{
    int64_t sum = 0;
    for (int tag = 0; tag < LS_MEMORY_TAG_COUNT; tag++)
        sum += book->live[tag];
    return sum;
}

void lsi_memory_book_note_peak(void)
{
    const int64_t now = lsi_memory_book_in_use();
    if (now > book->most_in_use)
        book->most_in_use = now;
}

size_t lsi_memory_book_live(void)
{
    const int64_t sum = lsi_memory_book_in_use() + (int64_t)book->kept -
                        (int64_t)book->kept_in_use;
    return sum > 0 ? (size_t)sum : 0;
}

void lsi_memory_book_tell(lsi_memory_lines *to, const lsi_memory_held *held,
                          uint64_t time)
{
    const lsi_memory_owner *const o = &held->owner;
    lsi_memory_lines_event(
        to, "%c %" PRIu64 " %" PRIu64 " %zu %d %u %u %u %u %u\n",
        held->kept ? 't' : '+', held->id, time, held->bytes, (int)held->tag,
        o->phase, o->path, o->operation, o->what, o->stack);
}

static int by_id(const void *a, const void *b)
{
    const lsi_memory_held *const x = *(lsi_memory_held *const *)a;
    const lsi_memory_held *const y = *(lsi_memory_held *const *)b;
    return (x->id > y->id) - (x->id < y->id);
}

/* In the order in which they were taken. */
static bool tell_all(lsi_memory_lines *to)
{
    size_t n = 0;
    lsi_memory_held **const all = malloc((book->n_held + 1) * sizeof(*all));
    if (all == NULL)
        return false;
    for (size_t i = 0; i < book->n_buckets; i++)
        for (lsi_memory_held *r = book->buckets[i]; r != NULL; r = r->next)
            all[n++] = r;
    qsort(all, n, sizeof(*all), by_id);
    for (size_t i = 0; i < n; i++)
        lsi_memory_book_tell(to, all[i], 0);
    free(all);
    return true;
}

int lsi_memory_book_snapshot(const char *path)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof(part), "%s.part", path) >= (int)sizeof(part))
        return ENAMETOOLONG;
    lsi_memory_lines *out = lsi_memory_lines_open(part, false);
    if (out == NULL)
        return errno;
    for (uint32_t i = 1; i <= book->things.n; i++)
        tell_thing(out, i);
    for (int tag = 0; tag < LS_MEMORY_TAG_COUNT; tag++)
        lsi_memory_lines_add(out, "i %d %" PRId64 "\n", tag,
                             book->anonymous[tag]);
    lsi_memory_lines_event(out, "k 0 %zu\n", book->kept);
    const bool told = tell_all(out);
    int error = lsi_memory_lines_close(&out);
    error = error == 0 && !told ? ENOMEM : error;
    if (error == 0 && rename(part, path) != 0)
        error = errno;
    if (error != 0)
        (void)unlink(part);
    return error;
}

void lsi_memory_book_look(bool refused)
{
    if (book->snapshot_path[0] == '\0' ||
        (!refused && (book->snapshot_above == 0 ||
                      lsi_memory_book_live() <= book->snapshot_above)))
        return;
    const int error = lsi_memory_book_snapshot(book->snapshot_path);
    if (error != 0)
        lsi_log(LSI_LOG_WARN, "cannot write the snapshot of memory %s: %s",
                book->snapshot_path, strerror(error));
    book->snapshot_path[0] = '\0';
}

/* ---- who holds most ------------------------------------------------------ */

/* "block 3/attention", at most. */
static void write_path(uint32_t number, char *out, size_t room)
{
    const lsi_interned_thing *const thing =
        lsi_interned_at(&book->things, number);
    const lsi_memory_parts *const p = thing != NULL ? thing->data : NULL;
    if (thing != NULL && thing->kind != LSI_MEMORY_PATH) {
        snprintf(out, room, "%s", (const char *)thing->data);
        return;
    }
    out[0] = '\0';
    if (p == NULL)
        return;
    write_path(p->parent, out, room);
    const lsi_interned_thing *const name =
        lsi_interned_at(&book->things, p->name);
    const size_t used = strlen(out);
    snprintf(out + used, room - used, "%s%s", used > 0 ? "/" : "",
             name != NULL ? (const char *)name->data : "unnamed");
}

/* By path; where there is none by operation, else by what it is. */
static uint32_t holder(const lsi_memory_owner *o)
{
    return o->path != 0 ? o->path : o->operation != 0 ? o->operation : o->what;
}

void lsi_memory_book_holders(char *out, size_t room)
{
    uint64_t *const bytes = calloc((size_t)book->things.n + 1, sizeof(*bytes));
    size_t used = 0;
    out[0] = '\0';
    if (bytes == NULL)
        return;
    for (size_t i = 0; i < book->n_buckets; i++)
        for (const lsi_memory_held *r = book->buckets[i]; r != NULL;
             r = r->next)
            bytes[holder(&r->owner)] += r->bytes;
    for (int place = 0; place < 3; place++) {
        char name[PATH_TEXT];
        uint32_t most = 1;
        for (uint32_t i = 1; i <= book->things.n; i++)
            most = bytes[i] > bytes[most] ? i : most;
        if (book->things.n == 0 || bytes[most] == 0 || used >= room)
            break;
        write_path(most, name, sizeof(name));
        const int n = snprintf(out + used, room - used, "%s%s %" PRIu64,
                               place == 0 ? "; most is held by " : ", ", name,
                               bytes[most]);
        used += n > 0 ? (size_t)n : 0;
        bytes[most] = 0;
    }
    free(bytes);
}

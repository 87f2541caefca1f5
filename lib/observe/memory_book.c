#include "observe/memory_book.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/append.h"
#include "base/clock.h"
#include "base/log.h"
#include "observe/memory_record.h"
#include "observe/names.h"

enum { PATH_TEXT = 400 };

lsi_memory_book lsi_memory_books;
static lsi_memory_book *const book = &lsi_memory_books;

uint64_t lsi_memory_book_time(void)
{
    return lsi_clock_ns() - book->began_ns;
}

/* ---- numbers ------------------------------------------------------------- */

static void write_trail(lsi_memory_log *to, const lsi_trail *trail)
{
    if (trail->call)
        LSI_MEMORY_WRITE(to, CALL, trail->parent, trail->value);
    else
        LSI_MEMORY_WRITE(to, PATH, trail->parent, trail->value);
}

uint32_t lsi_memory_book_trail(lsi_trail trail)
{
    bool is_new;
    if (!lsi_memory_is_recorded())
        return 0; /* a number of now would be unknown to the next file */
    const uint32_t number = lsi_trail_number(&book->trails, trail, &is_new);
    if (is_new)
        write_trail(book->log, &trail);
    return number;
}

/* Names appear in tables, so they contain no end of a line. */
uint32_t lsi_memory_book_name(const char *name, const char *suffix)
{
    char text[LSI_NAME_BYTES];
    snprintf(text, sizeof(text), "%s%s", name, suffix);
    for (char *at = text; *at != '\0'; at++)
        *at = (unsigned char)*at < ' ' ? ' ' : *at;
    return lsi_name_number(text) + 1;
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
    lsi_trails_free(&book->trails);
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

void lsi_memory_book_write(lsi_memory_log *to, const lsi_memory_held *held,
                           uint64_t time)
{
    const lsi_memory_owner *const o = &held->owner;
    lsi_memory_log_add(
        to, held->kept ? LSI_MEMORY_TAKEN_OF_POOL : LSI_MEMORY_TAKEN,
        (uint64_t[]){held->id, time, held->bytes, (uint64_t)held->tag, o->phase,
                     o->path, o->operation, o->what, o->stack},
        NULL, 0);
}

static int by_id(const void *a, const void *b)
{
    const lsi_memory_held *const x = *(lsi_memory_held *const *)a;
    const lsi_memory_held *const y = *(lsi_memory_held *const *)b;
    return (x->id > y->id) - (x->id < y->id);
}

/* In the order in which they were taken. */
static bool write_blocks(lsi_memory_log *to)
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
        lsi_memory_book_write(to, all[i], 0);
    free(all);
    return true;
}

int lsi_memory_book_snapshot(const char *path)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof(part), "%s.part", path) >= (int)sizeof(part))
        return ENAMETOOLONG;
    lsi_memory_log *out = lsi_memory_log_open(part, false, lsi_instant_now());
    if (out == NULL)
        return errno;
    for (uint32_t i = 0; i < book->trails.n; i++)
        write_trail(out, &book->trails.all[i]);
    for (uint64_t tag = 0; tag < LS_MEMORY_TAG_COUNT; tag++)
        LSI_MEMORY_WRITE(out, INITIAL, tag, lsi_zigzag(book->anonymous[tag]));
    LSI_MEMORY_WRITE(out, KEPT_NOW, 0, book->kept);
    const bool written = write_blocks(out);
    int error = lsi_memory_log_close(&out);
    error = error == 0 && !written ? ENOMEM : error;
    if (error == 0 && rename(part, path) != 0)
        error = errno;
    if (error != 0)
        (void)unlink(part);
    return error;
}

void lsi_memory_book_snapshot_if_due(bool refused)
{
    if (book->snapshot_path[0] == '\0' ||
        (!refused && (book->snapshot_above == 0 ||
                      lsi_memory_book_live() <= book->snapshot_above)))
        return;
    const int error = lsi_memory_book_snapshot(book->snapshot_path);
    if (error != 0)
        lsi_log(LS_LOG_WARN, "cannot write the memory snapshot '%s': %s",
                book->snapshot_path, strerror(error));
    book->snapshot_path[0] = '\0';
}

/* ---- who holds most ------------------------------------------------------ */

/* "block 3/attention", at most. */
static void write_path(uint32_t number, char *out, size_t room)
{
    out[0] = '\0';
    if (number == 0)
        return;
    const lsi_trail *const trail = &book->trails.all[number - 1];
    write_path(trail->parent, out, room);
    lsi_append(out, room, "%s%s", out[0] != '\0' ? "/" : "",
               lsi_name_at((uint32_t)trail->value - 1));
}

/*
 * Which of `bytes` a block belongs to: by path; where it has none by operation,
 * else by what it is. Names stand behind the trails.
 */
static size_t holder(const lsi_memory_owner *o)
{
    const size_t names = (size_t)book->trails.n;
    return o->path != 0 ? o->path
                        : names + (o->operation != 0 ? o->operation : o->what);
}

void lsi_memory_book_holders(char *out, size_t room)
{
    const size_t n = (size_t)book->trails.n + lsi_names() + 1;
    uint64_t *const bytes = calloc(n, sizeof(*bytes));
    out[0] = '\0';
    if (bytes == NULL)
        return;
    for (size_t i = 0; i < book->n_buckets; i++)
        for (const lsi_memory_held *r = book->buckets[i]; r != NULL;
             r = r->next)
            bytes[holder(&r->owner)] += r->bytes;
    for (int place = 0; place < 3; place++) {
        char name[PATH_TEXT];
        size_t most = 0;
        for (size_t i = 1; i < n; i++)
            most = bytes[i] > bytes[most] ? i : most;
        if (bytes[most] == 0)
            break;
        if (most <= book->trails.n)
            write_path((uint32_t)most, name, sizeof(name));
        else
            snprintf(name, sizeof(name), "%s",
                     lsi_name_at((uint32_t)(most - book->trails.n - 1)));
        lsi_append(out, room, "%s%s (%" PRIu64 " bytes)",
                   place == 0 ? ". In use by part: " : ", ", name, bytes[most]);
        bytes[most] = 0;
    }
    free(bytes);
}

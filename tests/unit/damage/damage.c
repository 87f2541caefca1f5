#include "damage.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/hash.h"
#include "lockstep/profile.h"

enum { USUAL_MEMORY = 32 << 20, SECONDS = 20, PRINTED = 20, BITS = 8 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LIMITED = 0 }; /* sanitizers reserve terabytes of addresses */
#else
enum { LIMITED = 1 };
#endif

typedef struct walk {
    const damage_case *c;
    int fd;
    damage_seen valid;
    damage_count count;
} walk;

/* ---- which damage it was ------------------------------------------------- */

/* Set ahead of each read, so that a signal handler can print it. */
static char place[DAMAGE_TEXT];

static void print_place(void)
{
    (void)!write(STDERR_FILENO, place, strlen(place));
}

/*
 * The address sanitizer calls it ahead of a report.
 * NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c)
 */
void __asan_on_error(void);
void __asan_on_error(void)
{
    print_place();
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c) */

static void on_signal(int signal)
{
    static const char hangs[] = "the read hangs\n";
    print_place();
    if (signal == SIGALRM)
        (void)!write(STDERR_FILENO, hangs, sizeof hangs - 1);
    (void)raise(signal); /* with the usual action, once this handler is left */
}

static void watch(bool on)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM};
    struct sigaction action = {.sa_handler = on ? on_signal : SIG_DFL,
                               .sa_flags = (int)SA_RESETHAND};
    for (size_t i = 0; i < TEST_COUNT(signals); i++)
        (void)sigaction(signals[i], &action, NULL);
}

static void set_timer(int seconds)
{
    const struct itimerval timer = {.it_value = {.tv_sec = seconds}};
    (void)setitimer(ITIMER_REAL, &timer, NULL);
}

/* ---- memory and descriptors ---------------------------------------------- */

static size_t address_space(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL && fscanf(file, "%zu", &pages) != 1)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Allocations beyond it fail; 0: takes the limit back. */
static void limit_memory(size_t bytes)
{
    struct rlimit limit;
    const size_t used = address_space();
    if (!LIMITED || used == 0 || getrlimit(RLIMIT_AS, &limit) != 0)
        return;
    limit.rlim_cur = bytes == 0 ? limit.rlim_max : used + bytes;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

static int count_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* ---- one read ------------------------------------------------------------ */

static size_t memory_of(const damage_case *c)
{
    return c->memory != 0 ? c->memory : USUAL_MEMORY;
}

static const char *opened(const damage_case *c)
{
    return c->opened != NULL ? c->opened : c->path;
}

static void broken(walk *w, const char *what)
{
    if (w->count.broken == 0)
        snprintf(w->count.first, sizeof w->count.first, "%.*s%.100s",
                 (int)sizeof w->count.first - 110, place, what);
    if (w->count.broken < PRINTED)
        print_error("%s%s\n", place, what);
    w->count.broken++;
}

static void check_seen(walk *w, damage_rule rule, const damage_seen *seen)
{
    char text[2 * DAMAGE_TEXT + 64];
    const bool same_shape = strcmp(seen->shape, w->valid.shape) == 0;
    const bool same = same_shape && seen->values == w->valid.values &&
                      seen->cut_off == w->valid.cut_off;
    w->count.accepted++;
    snprintf(text, sizeof text, "accepted as '%s', the valid file is '%s'",
             seen->shape, w->valid.shape);
    if (rule == DAMAGE_REFUSED)
        broken(w, "accepted");
    else if (rule == DAMAGE_VALUES && !same)
        broken(w, same_shape ? "accepted with other values" : text);
    else if (rule == DAMAGE_SHAPE && !same_shape && !seen->cut_off)
        broken(w, text);
}

static void read_once(walk *w, damage_rule rule)
{
    damage_seen seen = {.shape = ""};
    ls_memory_stats before, after;
    ls_memory_reset_peak();
    ls_memory_total(&before);
    set_timer(SECONDS);
    const ls_status status = w->c->read(opened(w->c), &seen);
    set_timer(0);
    ls_memory_total(&after);
    const size_t bytes = after.peak_bytes - before.live_bytes;
    if (bytes > w->count.most_bytes)
        w->count.most_bytes = bytes;
    if (bytes > memory_of(w->c) || status == LS_ERR_MEMORY)
        broken(w, "the read wants more memory than its bound");
    if (after.live_bytes != before.live_bytes)
        broken(w, "the read keeps memory");
    if (status == LS_OK) {
        check_seen(w, rule, &seen);
        return;
    }
    w->count.refused++;
    if (ls_last_error()[0] == '\0')
        broken(w, "an error without a message");
}

/* ---- all damages --------------------------------------------------------- */

static damage_rule rule_at(const damage_rules *rules, size_t at)
{
    for (size_t i = 0; i < rules->n; i++) {
        if (at >= rules->range[i].begin && at < rules->range[i].end)
            return rules->range[i].rule;
    }
    return rules->usual;
}

static void put(const walk *w, size_t at, const uint8_t *data, size_t bytes)
{
    assert_int_equal(pwrite(w->fd, data, bytes, (off_t)at), bytes);
}

static void flip_bits(walk *w, size_t at)
{
    const damage_case *const c = w->c;
    const damage_rule rule = rule_at(&c->flips, at);
    if (rule == DAMAGE_UNTRIED) {
        w->count.untried += BITS;
        return;
    }
    for (int bit = 0; bit < BITS; bit++) {
        const uint8_t byte = (uint8_t)(c->data[at] ^ 1U << bit);
        put(w, at, &byte, 1);
        snprintf(place, sizeof place,
                 "%s: byte %zu of %zu, bit %d: ", c->format, at, c->bytes, bit);
        read_once(w, rule);
    }
    put(w, at, &c->data[at], 1);
}

static void cut(walk *w, size_t length)
{
    const damage_case *const c = w->c;
    assert_int_equal(ftruncate(w->fd, (off_t)length), 0);
    snprintf(place, sizeof place, "%s: cut to %zu of %zu bytes: ", c->format,
             length, c->bytes);
    read_once(w, rule_at(&c->cuts, length));
}

static void append(walk *w, damage_rule rule, const char *what,
                   const uint8_t bytes[DAMAGE_MORE])
{
    const damage_case *const c = w->c;
    put(w, 0, c->data, c->bytes);
    put(w, c->bytes, bytes, DAMAGE_MORE);
    snprintf(place, sizeof place, "%s: %d %s after the end: ", c->format,
             DAMAGE_MORE, what);
    read_once(w, rule);
}

static void append_all(walk *w)
{
    static const uint8_t zeros[DAMAGE_MORE], junk[DAMAGE_MORE] = "appended";
    append(w, w->c->junk, "letters", junk);
    append(w, w->c->zeros, "zeros", zeros);
}

/* Not damaged, the file is read: or else nothing that is refused says anything.
 */
static void read_valid(const damage_case *c, damage_seen *seen)
{
    damage_write(c->path, c->data, c->bytes);
    assert_ok(c->read(opened(c), seen));
}

damage_count damage_walk(const damage_case *c)
{
    walk w = {.c = c};
    damage_seen again = {.shape = ""};
    read_valid(c, &w.valid);
    w.fd = open(c->path, O_RDWR | O_CLOEXEC);
    assert_true(w.fd >= 0);
    const int descriptors = count_descriptors();
    watch(true);
    limit_memory(memory_of(c));
    for (size_t at = 0; at < c->bytes; at++)
        flip_bits(&w, at);
    for (size_t length = c->bytes; length-- > 0;)
        cut(&w, length);
    append_all(&w);
    limit_memory(0);
    watch(false);
    snprintf(place, sizeof place, "%s: ", c->format);
    if (count_descriptors() != descriptors)
        broken(&w, "reads leave descriptors open");
    close(w.fd);
    read_valid(c, &again);
    assert_string_equal(again.shape, w.valid.shape);
    assert_true(again.values == w.valid.values);
    return w.count;
}

void damage_check(const damage_case *c)
{
    const damage_count n = damage_walk(c);
    print_message("%s: %zu bytes; %zu damaged forms refused, %zu accepted; at "
                  "most %zu KiB a read\n",
                  c->format, c->bytes, n.refused, n.accepted,
                  n.most_bytes >> 10);
    if (n.broken > 0)
        fail_msg("%zu rules broken; the first: %s", n.broken, n.first);
    assert_true(n.refused > 0);
    assert_int_equal(n.refused + n.accepted + n.untried,
                     (BITS + 1) * c->bytes + 2);
}

uint64_t damage_digest(uint64_t digest, const void *data, size_t bytes)
{
    return lsi_hash(digest, data, bytes);
}

/* ---- files --------------------------------------------------------------- */

static char folder[64];

int damage_begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lockstep-damage-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_entry(const char *path, const struct stat *info, int flag,
                        struct FTW *ftw)
{
    (void)info, (void)flag, (void)ftw;
    return remove(path);
}

int damage_end(void **state)
{
    (void)state;
    return nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

const char *damage_path(const char *name)
{
    static char paths[8][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % TEST_COUNT(paths)];
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return path;
}

void damage_write(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

uint8_t *damage_read(const char *path, size_t *bytes)
{
    struct stat info;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &info), 0);
    *bytes = (size_t)info.st_size;
    uint8_t *data = malloc(*bytes + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *bytes, file), *bytes);
    fclose(file);
    return data;
}

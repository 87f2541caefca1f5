#include "report/attempts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

enum { RUN_BYTES = 256, HEAD_BYTES = 1 << 14, LIST_BYTES = 200 };

/* The records of one attempt, by one of its files. */
typedef struct records {
    int attempt;
    char run[RUN_BYTES]; /* "": no launcher has named it */
    bool known;          /* the file says so */
    struct timespec changed;
} records;

static bool name_folder(const char *folder, int attempt, char out[PATH_MAX])
{
    const int n = attempt == 0 ? snprintf(out, PATH_MAX, "%s", folder)
                               : snprintf(out, PATH_MAX, "%s/attempt-%d",
                                          folder, attempt);
    return n < PATH_MAX;
}

/* "attempt-12" is 12; else 0. */
static int attempt_of(const char *name)
{
    static const char prefix[] = "attempt-";
    char *end;
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
        return 0;
    const long n = strtol(name + sizeof(prefix) - 1, &end, 10);
    return *end == '\0' && n > 0 && n < INT_MAX ? (int)n : 0;
}

static bool ends_with(const char *name, const char *ending)
{
    const size_t n = strlen(name), m = strlen(ending);
    return n > m && strcmp(name + n - m, ending) == 0;
}

/* Files of both kinds begin with a few letters, and then JSON. */
static void read_run(const char *path, records *out)
{
    char head[HEAD_BYTES];
    int fd;
    uint64_t bytes;
    size_t n = 0;
    json_error_t error;
    if (lsi_open_regular(path, 0, &fd, &bytes) != LS_OK)
        return;
    const ls_status status = lsi_read_up_to(fd, path, head, sizeof(head), &n);
    close(fd);
    const char *const begin = status == LS_OK ? memchr(head, '{', n) : NULL;
    if (begin == NULL)
        return;
    json_t *const json = json_loadb(begin, n - (size_t)(begin - head),
                                    JSON_DISABLE_EOF_CHECK, &error);
    const char *const text = json_string_value(json_object_get(json, "run"));
    out->known = text != NULL;
    snprintf(out->run, RUN_BYTES, "%s", text != NULL ? text : "");
    json_decref(json);
}

/* The newest file of the attempt says when it was; false: there is none. */
static bool look(const char *folder, const char *ending, records *out)
{
    char at[PATH_MAX], path[2 * PATH_MAX], newest[2 * PATH_MAX] = "";
    if (!name_folder(folder, out->attempt, at))
        return false;
    DIR *const all = opendir(at);
    for (const struct dirent *e; all != NULL && (e = readdir(all)) != NULL;) {
        struct stat info;
        snprintf(path, sizeof(path), "%s/%s", at, e->d_name);
        if (!ends_with(e->d_name, ending) || stat(path, &info) != 0)
            continue;
        if (newest[0] != '\0' &&
            (info.st_mtim.tv_sec < out->changed.tv_sec ||
             (info.st_mtim.tv_sec == out->changed.tv_sec &&
              info.st_mtim.tv_nsec <= out->changed.tv_nsec)))
            continue;
        out->changed = info.st_mtim;
        memcpy(newest, path, strlen(path) + 1);
    }
    if (all != NULL)
        closedir(all);
    if (newest[0] == '\0')
        return false;
    read_run(newest, out);
    return true;
}

/*
 * The later attempt of one run; of two runs the one that was written last. Runs
 * without a name are never the same.
 */
static bool is_newer(const records *a, const records *b)
{
    if (!a->known || !b->known ||
        (a->run[0] != '\0' && strcmp(a->run, b->run) == 0))
        return a->attempt > b->attempt;
    if (a->changed.tv_sec != b->changed.tv_sec)
        return a->changed.tv_sec > b->changed.tv_sec;
    return a->changed.tv_nsec > b->changed.tv_nsec;
}

/* What is there: the newest one, whether `wanted` is, and all in words. */
typedef struct search {
    records best;
    bool any, has_wanted;
    char list[LIST_BYTES];
} search;

static void see(search *s, const char *folder, const char *ending, int attempt,
                int64_t wanted)
{
    records one = {.attempt = attempt};
    if (!look(folder, ending, &one))
        return;
    const size_t used = strlen(s->list);
    snprintf(s->list + used, sizeof(s->list) - used, "%s%d", s->any ? ", " : "",
             attempt);
    s->has_wanted = s->has_wanted || attempt == wanted;
    if (!s->any || is_newer(&one, &s->best))
        s->best = one;
    s->any = true;
}

ls_status lsi_find_attempt(const char *folder, const char *ending,
                           int64_t wanted, lsi_attempts *out)
{
    search s = {.any = false};
    struct dirent **names = NULL;
    see(&s, folder, ending, 0, wanted);
    const int n = scandir(folder, &names, NULL, versionsort);
    for (int i = 0; i < n; i++) {
        const int attempt = attempt_of(names[i]->d_name);
        if (attempt > 0)
            see(&s, folder, ending, attempt, wanted);
        free(names[i]);
    }
    free(names);
    if (wanted > 0 && !s.has_wanted)
        return lsi_fail(LS_ERR_NOT_FOUND,
                        "%s has no records (*%s) of attempt %d; it has those "
                        "of attempts: %s",
                        folder, ending, (int)wanted, s.any ? s.list : "none");
    out->newest = s.any ? s.best.attempt : 0;
    out->chosen = wanted >= 0 ? (int)wanted : out->newest;
    if (!name_folder(folder, out->chosen, out->folder))
        return lsi_fail(LS_ERR_IO, "%s is too long a name", folder);
    return LS_OK;
}

void lsi_tell_attempt(const lsi_attempts *attempts)
{
    if (attempts->newest > 0 || attempts->chosen > 0)
        fprintf(stderr,
                "lockstep: attempt %d; the newest is attempt %d (--attempt N "
                "selects one)\n",
                attempts->chosen, attempts->newest);
}

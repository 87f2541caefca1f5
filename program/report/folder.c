#include "report/folder.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/append.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

enum {
    PATTERN_BYTES = 64,
    RUN_BYTES = 256,
    HEAD_BYTES = 1 << 14,
    LIST_BYTES = 200
};

/* ---- files --------------------------------------------------------------- */

/* Quotes a name as a pattern that matches only itself; returns its end. */
static char *quote(char *to, const char *name)
{
    for (; *name != '\0'; name++) {
        if (strchr("*?[]\\", *name) != NULL)
            *to++ = '\\';
        *to++ = *name;
    }
    *to = '\0';
    return to;
}

ls_status lsi_find_files(const char *folder, const char *pattern, glob_t *out)
{
    char path[2 * PATH_MAX + PATTERN_BYTES];
    glob_t found = {0};
    if (strlen(folder) >= PATH_MAX)
        return lsi_fail(LS_ERR_IO, "the path '%s' is too long", folder);
    snprintf(quote(path, folder), PATTERN_BYTES, "/%s", pattern);
    const int failed = glob(path, 0, NULL, &found);
    if (failed == GLOB_NOSPACE)
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory to list the files in '%s'", folder);
    if (failed != 0 && failed != GLOB_NOMATCH)
        return lsi_fail_errno(LS_ERR_IO, "cannot read '%s'", folder);
    *out = found;
    return LS_OK;
}

/* ---- attempts ------------------------------------------------------------ */

/* The records of one attempt, as one of its files describes them. */
typedef struct records {
    int attempt;
    char run[RUN_BYTES]; /* run; "": not named by a launcher */
    bool known;          /* whether the file states it */
    struct timespec changed;
} records;

static bool name_folder(const char *folder, int attempt, char out[PATH_MAX])
{
    const int n = attempt == 0 ? snprintf(out, PATH_MAX, "%s", folder)
                               : snprintf(out, PATH_MAX, "%s/attempt-%d",
                                          folder, attempt);
    return n < PATH_MAX;
}

/* The number 12 of "attempt-12"; else 0. */
static int attempt_of(const char *name)
{
    static const char prefix[] = "attempt-";
    char *end;
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
        return 0;
    const long n = strtol(name + sizeof(prefix) - 1, &end, 10);
    return *end == '\0' && n > 0 && n < INT_MAX ? (int)n : 0;
}

/* Files of both kinds begin with a few letters, followed by JSON. */
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

static bool is_later(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

/* The newest file of the attempt gives its time; false without a file. */
static bool find_newest_file(const char *folder, const char *ending,
                             records *out)
{
    char at[PATH_MAX], pattern[PATTERN_BYTES];
    glob_t found;
    const char *newest = NULL;
    snprintf(pattern, sizeof(pattern), "*%s", ending);
    if (!name_folder(folder, out->attempt, at) ||
        lsi_find_files(at, pattern, &found) != LS_OK)
        return false;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct stat info;
        if (stat(found.gl_pathv[i], &info) != 0 ||
            (newest != NULL && !is_later(info.st_mtim, out->changed)))
            continue;
        out->changed = info.st_mtim;
        newest = found.gl_pathv[i];
    }
    if (newest != NULL)
        read_run(newest, out);
    globfree(&found);
    return newest != NULL;
}

/*
 * Of one run, the later attempt is newer; of two runs, the one written last.
 * Runs without a name always count as two.
 */
static bool is_newer(const records *a, const records *b)
{
    if (!a->known || !b->known ||
        (a->run[0] != '\0' && strcmp(a->run, b->run) == 0))
        return a->attempt > b->attempt;
    return is_later(a->changed, b->changed);
}

/*
 * Result of a search: the newest attempt, whether `wanted` exists, and a list
 * of all in words.
 */
typedef struct search {
    records best;
    bool any, has_wanted;
    char list[LIST_BYTES];
} search;

static void add_attempt(search *s, const char *folder, const char *ending,
                        int attempt, int64_t wanted)
{
    records one = {.attempt = attempt};
    if (!find_newest_file(folder, ending, &one))
        return;
    lsi_append(s->list, sizeof(s->list), "%s%d", s->any ? ", " : "", attempt);
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
    add_attempt(&s, folder, ending, 0, wanted);
    const int n = scandir(folder, &names, NULL, versionsort);
    for (int i = 0; i < n; i++) {
        const int attempt = attempt_of(names[i]->d_name);
        if (attempt > 0)
            add_attempt(&s, folder, ending, attempt, wanted);
        free(names[i]);
    }
    free(names);
    if (wanted > 0 && !s.has_wanted)
        return lsi_fail(LS_ERR_NOT_FOUND,
                        "'%s' contains no records (*%s) of attempt %d; it "
                        "contains records of these attempts: %s",
                        folder, ending, (int)wanted, s.any ? s.list : "none");
    out->newest = s.any ? s.best.attempt : 0;
    out->chosen = wanted >= 0 ? (int)wanted : out->newest;
    if (!name_folder(folder, out->chosen, out->folder))
        return lsi_fail(LS_ERR_IO, "the path '%s' is too long", folder);
    return LS_OK;
}

void lsi_tell_attempt(const lsi_attempts *attempts)
{
    if (attempts->newest > 0 || attempts->chosen > 0)
        fprintf(stderr,
                "lockstep: reading attempt %d; the newest is attempt %d "
                "(--attempt N selects another one)\n",
                attempts->chosen, attempts->newest);
}

/* Which files a sequence of tokens is made of. */
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "input/data/tokens.h"

/* A sequence with room for `n_files` files. */
static ls_status alloc_tokens(ls_tokens **out, int64_t n_files,
                              const char *name)
{
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(ls_tokens), LS_MEMORY_DATA,
                            "a sequence of tokens"));
    ls_tokens *tokens = block;
    snprintf(tokens->name, sizeof(tokens->name), "%s", name);
    const ls_status status =
        lsi_alloc_zeroed(&block, (size_t)n_files * sizeof(lsi_token_file),
                         LS_MEMORY_DATA, "files of tokens");
    if (status != LS_OK) {
        lsi_free(tokens);
        return status;
    }
    tokens->files = block;
    tokens->n_files = n_files;
    *out = tokens;
    return LS_OK;
}

ls_status lsi_tokens_in_memory(ls_tokens **out, const char *name, int64_t count,
                               size_t width)
{
    ls_tokens *tokens;
    LS_TRY(alloc_tokens(&tokens, 1, name));
    lsi_token_file *const f = &tokens->files[0];
    const ls_status status =
        lsi_records_alloc(&f->records, (size_t)count * width);
    if (status != LS_OK) {
        ls_tokens_free(&tokens);
        return status;
    }
    f->first = f->records.data;
    f->width = width;
    f->count = tokens->count = count;
    *out = tokens;
    return LS_OK;
}

static ls_status open_file(ls_tokens *t, int64_t index, const char *path,
                           ls_token_format format)
{
    lsi_token_file *const f = &t->files[index];
    void *block = NULL;
    LS_TRY(lsi_alloc(&block, strlen(path) + 1, LS_MEMORY_DATA,
                     "the name of a file"));
    f->path = memcpy(block, path, strlen(path) + 1);
    LS_TRY(lsi_token_file_open(f, format));
    f->begin = t->count;
    t->count += f->count;
    if ((f->width == 1) == (t->files[0].width == 1))
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "cannot use '%s' and '%s' together: one holds text or "
                    "bytes, the other token numbers",
                    t->files[0].path, path);
}

static ls_status open_files(ls_tokens **out, const char *path, char **files,
                            size_t n, ls_token_format format)
{
    ls_tokens *tokens;
    LS_TRY(alloc_tokens(&tokens, (int64_t)n, path));
    ls_status status = LS_OK;
    for (size_t i = 0; i < n && status == LS_OK; i++)
        status = open_file(tokens, (int64_t)i, files[i], format);
    if (status != LS_OK) {
        ls_tokens_free(&tokens);
        return status;
    }
    *out = tokens;
    return LS_OK;
}

/* Moves the regular files of a list to its beginning; how many there are. */
static size_t keep_files(const glob_t *found)
{
    size_t kept = 0;
    for (size_t i = 0; i < found->gl_pathc; i++) {
        struct stat info;
        char *const path = found->gl_pathv[i];
        if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
            found->gl_pathv[i] = found->gl_pathv[kept];
            found->gl_pathv[kept++] = path;
        }
    }
    return kept;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static ls_status open_pattern(ls_tokens **out, const char *path,
                              const char *pattern, ls_token_format format)
{
    glob_t found;
    const int result = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (result == GLOB_NOSPACE)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory to list '%s'", path);
    const size_t n = result == 0 ? keep_files(&found) : 0;
    ls_status status = LS_OK;
    if (n == 0) {
        status = lsi_fail(LS_ERR_IO,
                          strcmp(path, pattern) == 0
                              ? "no file matches '%s'"
                              : "the folder '%s' holds no files",
                          path);
    } else {
        qsort(found.gl_pathv, n, sizeof(char *), compare);
        status = open_files(out, path, found.gl_pathv, n, format);
    }
    if (result == 0)
        globfree(&found);
    return status;
}

/* A folder's name may contain characters that are special in a pattern. */
static ls_status open_folder(ls_tokens **out, const char *path,
                             ls_token_format format)
{
    char pattern[2 * PATH_MAX + 3];
    size_t n = 0;
    for (const char *c = path; *c != '\0' && n < 2 * PATH_MAX - 1; c++) {
        if (strchr("*?[\\", *c) != NULL)
            pattern[n++] = '\\';
        pattern[n++] = *c;
    }
    memcpy(pattern + n, "/*", 3);
    return open_pattern(out, path, pattern, format);
}

ls_status ls_tokens_new(ls_tokens **out, const char *path,
                        ls_token_format format)
{
    struct stat info;
    LS_NEED(out, path);
    const bool is_there = stat(path, &info) == 0;
    if (is_there && S_ISDIR(info.st_mode))
        return open_folder(out, path, format);
    if (!is_there && strpbrk(path, "*?[") != NULL)
        return open_pattern(out, path, path, format);
    union {
        const char *constant;
        char *path;
    } one = {path}; /* which nobody writes to */
    return open_files(out, path, &one.path, 1, format);
}

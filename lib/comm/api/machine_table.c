#include "comm/api/machine_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "comm/api/select.h"
#include "comm/api/select_file.h"
#include "lockstep/version.h"

#define AGAIN "; run `lockstep tune` to measure again"

/* The most ranks that a line serves, over those that it was measured with. */
enum { MOST_TIMES = 2 };

static const char remark[] =
    "# Measured by lockstep tune. LOCKSTEP_TUNE=off ignores this file.\n";

/* ---- parsing ------------------------------------------------------------- */

/* Behind `title` at the beginning of a line; NULL if it begins otherwise. */
static const char *after(const char *line, const char *title)
{
    const size_t length = strlen(title);
    return strncmp(line, title, length) == 0 ? line + length : NULL;
}

/* "12 ranks: LINE": the number, 0 for "crowded: LINE"; NULL if neither. */
static const char *line_of(const char *text, int *ranks)
{
    char *end;
    const char *line = after(text, "crowded: ");
    *ranks = 0;
    if (line != NULL)
        return line;
    const long number = strtol(text, &end, 10);
    if (end == text || number < 2 || number > LSI_MAX_RANKS)
        return NULL;
    *ranks = (int)number;
    return after(end, " ranks: ");
}

/* Cuts off the next line of *rest; NULL at the end. */
static char *next_line(char **rest)
{
    char *const line = *rest;
    if (*line == '\0')
        return NULL;
    char *const end = strchr(line, '\n');
    *rest = end == NULL ? line + strlen(line) : end + 1;
    if (end != NULL)
        *end = '\0';
    return line;
}

static ls_status check_line(const char *text)
{
    int ranks;
    /* With all rows of the defaults behind it, it must fit. */
    lsi_select_table table = {.copying = LSI_COPYING_PAYS};
    const char *const line = line_of(text, &ranks);
    if (line == NULL || *line == '\0')
        return lsi_fail(LS_ERR_FORMAT,
                        "found '%.64s', but expected 'N ranks: LINE' or "
                        "'crowded: LINE'",
                        text);
    if (strlen(line) >= LSI_SELECT_FILE_BYTES)
        return lsi_fail(LS_ERR_FORMAT, "the line is longer than %d bytes",
                        LSI_SELECT_FILE_BYTES - 1);
    LS_TRY(lsi_select_parse(line, &table));
    if (lsi_select_reorders(&table))
        return lsi_fail(LS_ERR_FORMAT,
                        "'%.64s' names an algorithm that changes the order of "
                        "additions",
                        text);
    return LS_OK;
}

/* No fractions: their form depends on the program's locale. */
static ls_status parse_others(const char *line, lsi_machine_table *out)
{
    const char *const number = after(line, "others: ");
    char *end = NULL;
    const long percent = number == NULL ? -1 : strtol(number, &end, 10);
    const char *const total = percent < 0 ? NULL : after(end, "% of ");
    const long available = total == NULL ? 0 : strtol(total, &end, 10);
    if (end == number || percent > INT_MAX || available < 1 ||
        available > INT_MAX || strcmp(end, " CPUs") != 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "found '%.64s', but expected 'others: N%% of N CPUs'",
                        line);
    out->available = (int)available;
    out->others = (double)percent * 0.01 * (double)available;
    return LS_OK;
}

/* The lines of the head, which name the machine; then those of the ranks. */
static ls_status parse_line(const lsi_machine_key *key, const char *line,
                            int number, lsi_machine_table *out)
{
    static const char *const titles[] = {"lockstep: ", "machine: "};
    const char *const here[] = {ls_version_string(), key->machine};
    if (number < 2) {
        const char *const found = after(line, titles[number]);
        if (found == NULL || strcmp(found, here[number]) != 0)
            return lsi_fail(LS_ERR_FORMAT,
                            "found '%.128s', but expected '%s%s'", line,
                            titles[number], here[number]);
        return LS_OK;
    }
    if (number > 2)
        return check_line(line);
    return parse_others(line, out);
}

/* `text` keeps the lines of the ranks only. */
static ls_status parse(const lsi_machine_key *key, char *text,
                       lsi_machine_table *out)
{
    char *rest = text, *line;
    size_t used = 0;
    int number = 0;
    for (int at = 1; (line = next_line(&rest)) != NULL; at++) {
        if (*line == '\0' || *line == '#')
            continue;
        const ls_status status = parse_line(key, line, number, out);
        if (status != LS_OK)
            return lsi_fail(LS_ERR_FORMAT, "%s:%d: %s" AGAIN, key->path, at,
                            ls_last_error());
        if (number++ <= 2)
            continue;
        const size_t length = strlen(line);
        memmove(text + used, line, length);
        used += length;
        text[used++] = '\n';
    }
    text[used] = '\0';
    if (used == 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "%s: the file has no line for any ranks" AGAIN,
                        key->path);
    return LS_OK;
}

/* ---- the file ------------------------------------------------------------ */

/* Others could make jobs slow, or read their memory by way of `copy`. */
static ls_status check_owner(int fd, const char *path)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot read '%s'", path);
    if (info.st_uid != geteuid() && info.st_uid != 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s': it belongs to user %u, not to user %u", path,
                        (unsigned)info.st_uid, (unsigned)geteuid());
    if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s': other users may write it (mode %03o); use chmod "
                        "600",
                        path, (unsigned)info.st_mode & 0777);
    return LS_OK;
}

static ls_status read_text(const char *path, char *text)
{
    int fd;
    uint64_t size;
    size_t bytes = 0;
    LS_TRY(lsi_open_regular(path, LSI_MACHINE_TABLE_BYTES - 1, &fd, &size));
    ls_status status = check_owner(fd, path);
    if (status == LS_OK)
        status =
            lsi_read_up_to(fd, path, text, LSI_MACHINE_TABLE_BYTES - 1, &bytes);
    close(fd);
    text[bytes] = '\0';
    return status;
}

ls_status lsi_machine_table_read(const lsi_machine_key *key,
                                 lsi_machine_table *out)
{
    lsi_machine_table found = {.lines = NULL};
    LS_TRY(lsi_alloc(&found.lines, LSI_MACHINE_TABLE_BYTES, LS_MEMORY_COMM,
                     "the selection table of this machine"));
    ls_status status = read_text(key->path, found.lines);
    if (status == LS_OK)
        status = parse(key, found.lines, &found);
    if (status == LS_OK)
        *out = found;
    else
        lsi_free(found.lines);
    return status;
}

ls_status lsi_machine_table_text(const lsi_machine_key *key,
                                 const lsi_machine_table *table, char *text,
                                 size_t bytes)
{
    lsi_machine_table again = *table;
    char *copy = NULL;
    if ((size_t)snprintf(text, bytes,
                         "%slockstep: %s\nmachine: %s\nothers: %.0f%% of %d "
                         "CPUs\n%s",
                         remark, ls_version_string(), key->machine,
                         100 * table->others / table->available,
                         table->available, table->lines) >= bytes)
        return lsi_fail(LS_ERR_FORMAT,
                        "the selection table is longer than %zu bytes",
                        bytes - 1);
    LS_TRY(lsi_alloc(&copy, strlen(text) + 1, LS_MEMORY_COMM,
                     "the selection table of this machine"));
    memcpy(copy, text, strlen(text) + 1);
    const ls_status status = parse(key, copy, &again);
    lsi_free(copy);
    return status;
}

/* ---- one line ------------------------------------------------------------ */

void lsi_machine_table_title(int ranks, bool crowded, char *text, size_t bytes)
{
    if (crowded)
        snprintf(text, bytes, "crowded: ");
    else
        snprintf(text, bytes, "%d ranks: ", ranks);
}

void lsi_machine_table_line(const char *lines, int ranks, bool crowded,
                            char *line, size_t bytes)
{
    int best = -1, of;
    *line = '\0';
    for (const char *at = lines; *at != '\0';) {
        const size_t length = strcspn(at, "\n");
        const char *const found = line_of(at, &of);
        const bool fits = crowded ? of == 0
                                  : of > best && of != 0 && of <= ranks &&
                                        ranks <= MOST_TIMES * of;
        if (found != NULL && fits) {
            best = of;
            snprintf(line, bytes, "%.*s", (int)(length - (size_t)(found - at)),
                     found);
        }
        at += length + (at[length] == '\n');
    }
}

ls_status lsi_machine_table_wanted(bool *out)
{
    const char *const text = getenv("LOCKSTEP_TUNE");
    const bool off = text != NULL && strcmp(text, "off") == 0;
    if (text != NULL && !off && *text != '\0' && strcmp(text, "on") != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "LOCKSTEP_TUNE is '%s'; it should be on or off", text);
    *out = !off;
    return LS_OK;
}

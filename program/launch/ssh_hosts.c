/* Lists of hosts; see ssh_hosts.h. */
#include "launch/ssh_hosts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "launch/launch.h"

static ls_status add(lsi_ssh_hosts *all, const lsi_ssh_host *host)
{
    for (int i = 0; i < all->n; i++) {
        if (strcmp(all->hosts[i].name, host->name) == 0)
            return lsi_fail(LS_ERR_ARGUMENT, "host %s is listed twice",
                            host->name);
    }
    if (all->n == LSI_SSH_MAX_HOSTS)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "too many hosts: at most %d are possible",
                        LSI_SSH_MAX_HOSTS);
    lsi_ssh_host *const more =
        realloc(all->hosts, ((size_t)all->n + 1) * sizeof(*more));
    if (more == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for a list of hosts");
    more[all->n++] = *host;
    all->hosts = more;
    return LS_OK;
}

/* Refuses a name that begins with -, which would be a flag of ssh. */
static bool read_name(const char *text, size_t length, char out[256])
{
    if (length == 0 || length >= 256 || text[0] == '-')
        return false;
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c <= ' ' || c == 127 || strchr("'\"\\$`;|&<>()*?", c) != NULL)
            return false;
    }
    memcpy(out, text, length);
    out[length] = '\0';
    return true;
}

static bool read_ranks(const char *text, size_t length, int *out)
{
    char *end;
    const long value = strtol(text, &end, 10);
    *out = (int)value;
    return length > 0 && *text >= '0' && *text <= '9' && end == text + length &&
           value >= 1 && value <= LSI_LAUNCH_MAX_RANKS;
}

/* "name", "name:2", "name slots=2" */
static bool read_entry(const char *text, size_t length, int ranks,
                       lsi_ssh_host *out)
{
    static const char slots[] = "slots=";
    const size_t name = strcspn(text, ": \t,\n");
    const char *rest = text + (name < length ? name : length);
    const char *const end = text + length;
    out->ranks = ranks;
    if (!read_name(text, (size_t)(rest - text), out->name))
        return false;
    if (rest < end && *rest == ':')
        return read_ranks(rest + 1, (size_t)(end - rest - 1), &out->ranks);
    while (rest < end && (*rest == ' ' || *rest == '\t'))
        rest++;
    if (rest == end)
        return true;
    const size_t word = sizeof(slots) - 1;
    return (size_t)(end - rest) > word && strncmp(rest, slots, word) == 0 &&
           read_ranks(rest + word, (size_t)(end - rest) - word, &out->ranks);
}

static ls_status read_list(const char *text, int ranks, lsi_ssh_hosts *all)
{
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        lsi_ssh_host host;
        if (!read_entry(at, length, ranks, &host))
            return lsi_fail(LS_ERR_ARGUMENT,
                            "'%.*s' is not a host: write NAME or NAME:RANKS, "
                            "with 1 to %d ranks, or the name of a file",
                            (int)(length < 100 ? length : 100), at,
                            LSI_LAUNCH_MAX_RANKS);
        LS_TRY(add(all, &host));
        at += length;
        if (*at == '\0')
            return LS_OK;
    }
}

static ls_status read_line(const char *path, int number, char *line, int ranks,
                           lsi_ssh_hosts *all)
{
    line[strcspn(line, "#\r\n")] = '\0';
    line += strspn(line, " \t");
    size_t length = strlen(line);
    lsi_ssh_host host;
    while (length > 0 && (line[length - 1] == ' ' || line[length - 1] == '\t'))
        length--;
    if (length == 0)
        return LS_OK;
    if (!read_entry(line, length, ranks, &host))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s, line %d: '%.*s' is not a host: write NAME, or "
                        "NAME slots=RANKS with 1 to %d ranks",
                        path, number, (int)(length < 100 ? length : 100), line,
                        LSI_LAUNCH_MAX_RANKS);
    return add(all, &host);
}

/* Whether all of a line has been read: the remainder would be another host. */
static bool is_whole(const char *line, FILE *file)
{
    if (strchr(line, '\n') != NULL)
        return true;
    const int next = getc(file);
    (void)ungetc(next, file);
    return next == EOF;
}

static ls_status read_file(const char *path, int ranks, lsi_ssh_hosts *all)
{
    char line[1024];
    FILE *const file = fopen(path, "re");
    if (file == NULL)
        return lsi_fail_errno(LS_ERR_IO, "cannot read the hosts in '%s'", path);
    ls_status status = LS_OK;
    for (int i = 1; status == LS_OK && fgets(line, sizeof(line), file); i++) {
        if (is_whole(line, file))
            status = read_line(path, i, line, ranks, all);
        else
            status = lsi_fail(LS_ERR_ARGUMENT,
                              "%s, line %d has more than %zu characters", path,
                              i, sizeof(line) - 1);
    }
    if (status == LS_OK && ferror(file))
        status =
            lsi_fail_errno(LS_ERR_IO, "cannot read the hosts in '%s'", path);
    fclose(file);
    if (status == LS_OK && all->n == 0)
        status = lsi_fail(LS_ERR_ARGUMENT, "%s lists no hosts", path);
    return status;
}

ls_status lsi_ssh_hosts_read(const char *text, int ranks, lsi_ssh_hosts *out)
{
    lsi_ssh_hosts all = {0};
    struct stat file;
    const bool is_file = stat(text, &file) == 0 && !S_ISDIR(file.st_mode);
    const ls_status status = is_file || strchr(text, '/') != NULL
                                 ? read_file(text, ranks, &all)
                                 : read_list(text, ranks, &all);
    if (status != LS_OK) {
        free(all.hosts);
        return status;
    }
    *out = all;
    return LS_OK;
}

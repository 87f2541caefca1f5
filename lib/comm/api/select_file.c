#include "comm/api/select_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/file.h"
#include "comm/api/select.h"

#define MACHINE "machine: "

/* Bytes of a file, with its comments. */
enum { MOST_BYTES = 1 << 20 };

/* All CPUs, not only those of this rank: ranks are bound to different ones. */
static void machine_text(char *text, size_t bytes)
{
    snprintf(text, bytes, "%s%s, %ld cpus", MACHINE, lsi_cpu_model(),
             sysconf(_SC_NPROCESSORS_CONF));
}

static ls_status check_machine(const char *line)
{
    char here[256];
    machine_text(here, sizeof(here));
    if (strncmp(line, MACHINE, strlen(MACHINE)) != 0)
        return lsi_fail(
            LS_ERR_FORMAT,
            "found '%.64s', but expected a line that names the machine (here: "
            "'%s'). Create the file with `lockstep tune`",
            line, here);
    if (strcmp(line, here) != 0)
        return lsi_fail(
            LS_ERR_FORMAT,
            "the file was measured on another machine ('%.128s'); this machine "
            "is '%s'. Run `lockstep tune` on this machine",
            line, here);
    return LS_OK;
}

/* One line, without its end; *used is the length of the text so far. */
static ls_status parse_line(const char *line, bool *machine, char *text,
                            size_t *used)
{
    lsi_select_table table = {.rows = 0};
    if (*line == '\0' || *line == '#')
        return LS_OK;
    if (!*machine) {
        *machine = true;
        return check_machine(line);
    }
    LS_TRY(lsi_select_parse(line, &table));
    *used += (size_t)snprintf(text + *used, LSI_SELECT_FILE_BYTES - *used,
                              "%s%s", *used == 0 ? "" : ",", line);
    if (*used >= LSI_SELECT_FILE_BYTES)
        return lsi_fail(LS_ERR_FORMAT,
                        "the selection table is longer than %d bytes; remove "
                        "lines, or create the file again with `lockstep tune`",
                        (int)LSI_SELECT_FILE_BYTES);
    return LS_OK;
}

static ls_status read_lines(FILE *file, const char *path, char *text)
{
    char line[4096];
    bool machine = false;
    size_t used = 0;
    text[0] = '\0';
    for (int number = 1; fgets(line, sizeof(line), file) != NULL; number++) {
        if (strlen(line) == sizeof(line) - 1)
            return lsi_fail(LS_ERR_FORMAT,
                            "%s:%d: the line is longer than %zu bytes", path,
                            number, sizeof(line) - 2);
        line[strcspn(line, "\r\n")] = '\0';
        const ls_status status = parse_line(line, &machine, text, &used);
        if (status == LS_OK)
            continue;
        return lsi_fail(status, "%s:%d: %s", path, number, ls_last_error());
    }
    if (used == 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "%s: the selection table is empty; create the file "
                        "with `lockstep tune`",
                        path);
    return LS_OK;
}

ls_status lsi_select_read(const char *path, char *text)
{
    int fd;
    uint64_t bytes;
    LS_TRY(lsi_open_regular(path, MOST_BYTES, &fd, &bytes));
    FILE *file = fdopen(fd, "r");
    if (file == NULL) {
        close(fd);
        return lsi_fail(LS_ERR_MEMORY, "not enough memory to read '%s'", path);
    }
    ls_status status = read_lines(file, path, text);
    if (ferror(file))
        status = lsi_fail(LS_ERR_IO, "cannot read the selection table in '%s'",
                          path);
    fclose(file);
    return status;
}

char *lsi_select_file_text(const char *line, int ranks, char *text,
                           size_t bytes)
{
    char machine[256];
    machine_text(machine, sizeof(machine));
    snprintf(text, bytes,
             "# Measured by lockstep tune with %d ranks.\n%s\n%s\n", ranks,
             machine, line);
    /* One operation per line, so that an error can name the line. */
    for (char *c = strstr(text, machine) + strlen(machine); *c != '\0'; c++)
        if (*c == ',')
            *c = '\n';
    return text;
}

/*
 * The selection table: a line, as LOCKSTEP_SELECT has it, the same as a file,
 * and as the table of a machine. The first byte says what the table knows of
 * its machine.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "comm/api/machine_table.h"
#include "comm/api/select.h"
#include "comm/api/select_file.h"
#include "fuzz.h"
#include "lockstep/version.h"

static const size_t sizes[] = {0,       1, 4095, 4096, 65536, (size_t)1 << 40,
                               SIZE_MAX};

/* Somebody serves every size. */
static void check(const lsi_select_table *table)
{
    for (int op = LSI_OP_BROADCAST; op < LSI_OP_COUNT; op++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            if (!lsi_operation_selectable((lsi_operation)op))
                continue;
            const lsi_algorithm *const *found =
                lsi_select_find(table, (lsi_operation)op, sizes[i]);
            fuzz_demand(found != NULL && found[0] != NULL);
        }
}

/* A valid line of a file is a valid line alone. */
static void read_as_file(const char *path, lsi_select_table *table)
{
    char text[LSI_SELECT_FILE_BYTES];
    if (!fuzz_ok(lsi_select_read(path, text)))
        return;
    if (fuzz_ok(lsi_select_parse(text, table)))
        check(table);
}

/* Whatever is accepted serves each number of ranks, by folds alone. */
static void use_lines(const char *lines, lsi_select_table *table)
{
    static char line[LSI_SELECT_FILE_BYTES];
    table->spans = false;
    for (int ranks = 1; ranks < 10; ranks++) {
        lsi_machine_table_line(lines, ranks, ranks == 1, line, sizeof(line));
        fuzz_demand(fuzz_ok(lsi_select_parse(line, table)));
        fuzz_demand(!lsi_select_reorders(table));
        check(table);
    }
}

/* `lines` of the ranks behind a valid head, or the whole text of a file. */
static void read_as_table(const char *lines, bool whole,
                          lsi_select_table *table)
{
    static char text[LSI_MACHINE_TABLE_BYTES];
    static lsi_machine_key key = {.machine = "abacus, CPUs 0-9, 0"};
    const int head =
        snprintf(text, sizeof(text),
                 "lockstep: %s\nmachine: %s\nothers: 25%% of 2 CPUs\n%s",
                 ls_version_string(), key.machine, lines);
    lsi_machine_table found;
    if (head >= (int)sizeof(text))
        return;
    snprintf(key.path, sizeof(key.path), "%s",
             whole ? fuzz_file(lines, strlen(lines))
                   : fuzz_file(text, strlen(text)));
    (void)chmod(key.path, 0600);
    if (!fuzz_ok(lsi_machine_table_read(&key, &found)))
        return;
    use_lines(found.lines, table);
    fuzz_demand(
        fuzz_ok(lsi_machine_table_text(&key, &found, text, sizeof(text))));
    lsi_free(found.lines);
}

static void write_and_read(const char *line, lsi_select_table *table)
{
    static char text[LSI_SELECT_FILE_BYTES + 512];
    lsi_select_file_text(line, 4, text, sizeof(text));
    read_as_file(fuzz_file(text, strlen(text)), table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static lsi_select_table table;
    fuzz_input in = {data, size};
    const uint8_t flags = fuzz_byte(&in);
    table = (lsi_select_table){.deterministic = flags & 1,
                               .copying = flags & 2 ? LSI_COPYING_PAYS
                                                    : LSI_COPYING_LOSES,
                               .spans = flags & 4};
    if (flags & 8) {
        read_as_file(fuzz_file(in.data, in.size), &table);
        return 0;
    }
    char *line = fuzz_rest(&in);
    if (flags & 16)
        read_as_table(line, flags & 32, &table);
    else if (fuzz_ok(lsi_select_parse(line, &table))) {
        check(&table);
        write_and_read(line, &table);
    }
    free(line);
    return 0;
}

#include "comm/api/select.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/options.h"
#include "comm/coll/algorithm.h"

/* ---- defaults ------------------------------------------------------------ */

/* Whether an algorithm adds in another order than the group's. */
static bool reorders(const lsi_select_table *table, const lsi_algorithm *a)
{
    if (table->by_place)
        return a->by_rank || (a->own_order && (a->needs & LSI_PATH_NODES) == 0);
    return table->deterministic && a->own_order;
}

/* Whether the kernel's copy is too slow for an algorithm that needs it. */
static bool copies_in_vain(const lsi_select_table *table,
                           const lsi_algorithm *a)
{
    const bool reduces = lsi_operation_reduces(a->operation);
    return (a->needs & LSI_PATH_COPY) != 0 &&
           table->copying < (reduces ? LSI_COPYING_PAYS : LSI_COPYING_MOVES);
}

static bool serves(const lsi_algorithm *a, const lsi_select_table *table,
                   lsi_operation operation)
{
    if (a->operation != operation || reorders(table, a) ||
        copies_in_vain(table, a))
        return false;
    return table->spans ? a->serves.between_nodes : a->serves.on_a_node;
}

/* The row that begins at a size: up to where its candidates are the same. */
static lsi_range_row default_row(const lsi_select_table *table,
                                 lsi_operation operation, size_t begin)
{
    lsi_range_row row = {operation, begin, SIZE_MAX, {NULL}};
    const lsi_algorithm *a;
    int kept = 0;
    for (int i = 0; (a = lsi_algorithm_at(i)) != NULL; i++) {
        if (!serves(a, table, operation) || a->serves.end <= begin)
            continue;
        const bool begun = a->serves.begin <= begin;
        const size_t until = begun ? a->serves.end : a->serves.begin;
        row.end = until < row.end ? until : row.end;
        assert(!begun || kept < LSI_CANDIDATES); /* a row would be lost */
        if (begun && kept < LSI_CANDIDATES)
            row.candidates[kept++] = a;
    }
    return row;
}

/* All rows must fit, those of large sizes most of all. */
static ls_status append_row(lsi_select_table *table, const lsi_range_row *row)
{
    if (table->rows == LSI_SELECT_ROWS)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the table has more than %d size ranges, including the "
                        "default ranges; use fewer ranges",
                        LSI_SELECT_ROWS);
    table->row[table->rows++] = *row;
    if (table->first[row->operation] == 0)
        table->first[row->operation] = table->rows;
    return LS_OK;
}

static ls_status append_defaults(lsi_select_table *table)
{
    for (int o = 0; o < LSI_OP_COUNT; o++) {
        const lsi_operation operation = (lsi_operation)o;
        table->fixed[o][0] = lsi_algorithm_find(operation, "flat", 4);
        for (size_t at = 0; at != SIZE_MAX;) {
            const lsi_range_row row = default_row(table, operation, at);
            if (row.candidates[0] != NULL)
                LS_TRY(append_row(table, &row));
            at = row.end;
        }
    }
    return LS_OK;
}

/* ---- parsing a line ------------------------------------------------------ */

/* A piece of the line: text up to a delimiter. */
typedef struct piece {
    const char *text;
    size_t length;
} piece;

/* Cuts the first piece off *rest; false at the end. */
static bool cut(piece *rest, char delimiter, piece *out)
{
    if (rest->text == NULL)
        return false;
    const char *end = memchr(rest->text, delimiter, rest->length);
    out->text = rest->text;
    if (end == NULL) {
        out->length = rest->length;
        rest->text = NULL;
        return true;
    }
    out->length = (size_t)(end - rest->text);
    rest->text = end + 1;
    rest->length -= out->length + 1;
    return true;
}

static ls_status parse_operation(piece name, lsi_operation *out)
{
    for (int op = 0; op < LSI_OP_COUNT; op++) {
        const char *known = lsi_operation_name((lsi_operation)op);
        if (lsi_operation_selectable((lsi_operation)op) &&
            strlen(known) == name.length &&
            memcmp(known, name.text, name.length) == 0) {
            *out = (lsi_operation)op;
            return LS_OK;
        }
    }
    char list[256] = "";
    size_t used = 0;
    for (int op = 0; op < LSI_OP_COUNT && used < sizeof(list); op++)
        if (lsi_operation_selectable((lsi_operation)op))
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
                                     op == 0 ? "" : ", ",
                                     lsi_operation_name((lsi_operation)op));
    return lsi_fail(LS_ERR_ARGUMENT,
                    "unknown operation '%.*s'; choose one of: %s",
                    (int)name.length, name.text, list);
}

static ls_status parse_size(piece text, size_t *out)
{
    char copy[32];
    if (text.length == 3 && memcmp(text.text, "inf", 3) == 0) {
        *out = SIZE_MAX;
        return LS_OK;
    }
    int64_t bytes = 0;
    if (text.length >= sizeof(copy))
        return lsi_fail(LS_ERR_ARGUMENT, "'%.*s' is too long for a size",
                        (int)text.length, text.text);
    snprintf(copy, sizeof(copy), "%.*s", (int)text.length, text.text);
    LS_TRY(lsi_parse_bytes(copy, &bytes));
    *out = (size_t)bytes;
    return LS_OK;
}

static ls_status parse_bounds(piece bounds, lsi_range_row *row)
{
    piece begin, end, rest = bounds;
    if (!cut(&rest, '-', &begin) || !cut(&rest, '-', &end) || rest.text != NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "'%.*s' is not a size range such as 0-8k or 1m-inf",
                        (int)bounds.length, bounds.text);
    LS_TRY(parse_size(begin, &row->begin));
    LS_TRY(parse_size(end, &row->end));
    if (row->begin >= row->end)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the size range '%.*s' is empty; the first size must "
                        "be below the second size",
                        (int)bounds.length, bounds.text);
    return LS_OK;
}

static ls_status find_algorithm(lsi_operation operation, piece name,
                                const lsi_algorithm **out)
{
    char list[256];
    *out = lsi_algorithm_find(operation, name.text, name.length);
    if (*out != NULL)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "%s has no algorithm '%.*s'; choose one of: %s",
                    lsi_operation_name(operation), (int)name.length, name.text,
                    lsi_algorithm_names(operation, list, sizeof(list)));
}

static ls_status parse_candidates(piece names, const lsi_select_table *table,
                                  lsi_range_row *row)
{
    piece name, rest = names;
    int kept = 0;
    for (int n = 0; cut(&rest, '|', &name); n++) {
        const lsi_algorithm *found;
        LS_TRY(find_algorithm(row->operation, name, &found));
        if (n == LSI_CANDIDATES)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "a size range can have at most %d algorithms, but "
                            "'%.*s' lists more",
                            LSI_CANDIDATES, (int)names.length, names.text);
        if (!reorders(table, found))
            row->candidates[kept++] = found;
        if (found->in_cells && (n > 0 || rest.text != NULL))
            return lsi_fail(LS_ERR_ARGUMENT,
                            "the algorithm %s always works, so use it alone, "
                            "not with others as in '%.*s'",
                            found->name, (int)names.length, names.text);
        if (found->in_cells && row->end - 1 > LSI_FLAT_BYTES)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "%s handles at most %d bytes; end the size range "
                            "of this algorithm at that size",
                            found->name, LSI_FLAT_BYTES);
    }
    if (kept == 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s with '%.*s' does not keep the summation order that "
                        "%s requires; use another algorithm, such as staged",
                        lsi_operation_name(row->operation), (int)names.length,
                        names.text,
                        lsi_bits_are_portable()
                            ? "LOCKSTEP_BITS=portable"
                            : "--deterministic (LOCKSTEP_DETERMINISTIC=1)");
    return LS_OK;
}

/* "0-8k:flat" */
static ls_status parse_row(lsi_operation operation, piece text,
                           lsi_select_table *table)
{
    lsi_range_row row = {.operation = operation};
    piece bounds, names, rest = text;
    if (!cut(&rest, ':', &bounds) || !cut(&rest, ':', &names) ||
        rest.text != NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "'%.*s' should be RANGE:ALGORITHM, such as 0-8k:flat",
                        (int)text.length, text.text);
    LS_TRY(parse_bounds(bounds, &row));
    LS_TRY(parse_candidates(names, table, &row));
    return append_row(table, &row);
}

/* "window:128k" or "spins:700"; *found: it is one of them. */
static ls_status parse_setting(piece name, piece value, lsi_select_table *table,
                               bool *found)
{
    const struct {
        const char *name;
        size_t min, max, unit;
        int *place;
    } settings[] = {
        {"window", LSI_LEAST_WINDOW, LSI_MOST_WINDOW, LSI_LINE, &table->window},
        {"spins", LSI_LEAST_SPINS, LSI_MOST_SPINS, 1, &table->spins},
    };
    *found = false;
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        size_t number;
        if (strlen(settings[i].name) != name.length ||
            memcmp(settings[i].name, name.text, name.length) != 0)
            continue;
        *found = true;
        LS_TRY(parse_size(value, &number));
        if (number < settings[i].min || number > settings[i].max ||
            number % settings[i].unit != 0)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "%s is '%.*s'; it should be a multiple of %zu from "
                            "%zu to %zu",
                            settings[i].name, (int)value.length, value.text,
                            settings[i].unit, settings[i].min, settings[i].max);
        *settings[i].place = (int)number;
    }
    return LS_OK;
}

/* Appends the rows of a line to the table. */
static ls_status parse_line(const char *line, lsi_select_table *table)
{
    piece entry, all = {line, strlen(line)};
    while (cut(&all, ',', &entry)) {
        piece name, row;
        bool setting;
        lsi_operation operation = LSI_OP_COUNT;
        if (!cut(&entry, ':', &name) || entry.text == NULL)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "'%.*s' should be OPERATION:RANGE:ALGORITHM, such "
                            "as all_reduce:0-8k:flat",
                            (int)name.length, name.text);
        LS_TRY(parse_setting(name, entry, table, &setting));
        if (setting)
            continue;
        LS_TRY(parse_operation(name, &operation));
        while (cut(&entry, ';', &row))
            LS_TRY(parse_row(operation, row, table));
    }
    return LS_OK;
}

void lsi_select_default(lsi_select_table *table)
{
    table->rows = 0;
    memset(table->first, 0, sizeof(table->first));
    (void)append_defaults(table); /* there is room for them alone */
}

ls_status lsi_select_environment(lsi_select_table *table)
{
    const char *text = getenv("LOCKSTEP_DETERMINISTIC");
    const bool set = text != NULL && strcmp(text, "1") == 0;
    if (text != NULL && !set && *text != '\0' && strcmp(text, "0") != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "LOCKSTEP_DETERMINISTIC is '%s'; it should be 0 or 1",
                        text);
    table->deterministic = set || lsi_bits_are_portable();
    return LS_OK;
}

void lsi_select_places(lsi_select_table *table)
{
    const char *text = getenv("LOCKSTEP_DETERMINISTIC");
    if (!lsi_bits_are_portable() || (text != NULL && strcmp(text, "1") == 0))
        return;
    table->deterministic = false;
    table->by_place = true;
    lsi_select_default(table);
}

ls_status lsi_select_parse(const char *line, lsi_select_table *table)
{
    lsi_select_table *fresh = NULL;
    LS_TRY(lsi_alloc_zeroed(&fresh, sizeof(*fresh), LS_MEMORY_COMM,
                            "a selection table"));
    fresh->deterministic = table->deterministic;
    fresh->by_place = table->by_place;
    fresh->copying = table->copying;
    fresh->spans = table->spans;
    ls_status status = *line == '\0' ? LS_OK : parse_line(line, fresh);
    if (status == LS_OK)
        status = append_defaults(fresh);
    if (status == LS_OK)
        *table = *fresh;
    lsi_free(fresh);
    return status;
}

static bool has_copy(const lsi_algorithm *const *candidates)
{
    for (int i = 0; i < LSI_CANDIDATES && candidates[i] != NULL; i++)
        if ((candidates[i]->needs & LSI_PATH_COPY) != 0)
            return true;
    return false;
}

bool lsi_select_copies(const lsi_select_table *table)
{
    for (int i = 0; i < table->rows; i++)
        if (has_copy(table->row[i].candidates))
            return true;
    for (int o = 0; o < LSI_OP_COUNT; o++)
        if (has_copy(table->fixed[o]))
            return true;
    return false;
}

bool lsi_select_reorders(const lsi_select_table *table)
{
    for (int i = 0; i < table->rows; i++)
        for (int c = 0; c < LSI_CANDIDATES; c++) {
            const lsi_algorithm *const a = table->row[i].candidates[c];
            if (a != NULL && a->own_order)
                return true;
        }
    return false;
}

uint64_t lsi_select_hash(const lsi_select_table *table, const char *line)
{
    return lsi_hash(LSI_HASH_START + table->deterministic + 2 * table->by_place,
                    line, strlen(line));
}

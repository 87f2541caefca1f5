#include "array/device/find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/module.h"

/* The kinds of devices, which are the names of their modules. */
static const char *const kinds[] = {"cuda"};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), MOST_DIGITS = 9 };

/* ---- names --------------------------------------------------------------- */

static ls_status parse_number(const char *name, const char *number, int *index)
{
    const size_t digits = strspn(number, "0123456789");
    if (number[0] == '\0')
        return lsi_fail(LS_ERR_ARGUMENT,
                        "device \"%s\": no number follows the colon; it should "
                        "be as in %s0",
                        name, name);
    if (number[digits] != '\0' || (number[0] == '0' && digits > 1))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "device \"%s\": \"%s\" is no number of a device; these "
                        "are 0, 1, 2 and so on",
                        name, number);
    if (digits > MOST_DIGITS)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "device \"%s\": no machine has so many devices; the "
                        "first is number 0",
                        name);
    *index = (int)strtol(number, NULL, 10);
    return LS_OK;
}

static ls_status parse(const char *name, const char **kind, int *index)
{
    const size_t length = strcspn(name, ":");
    for (int i = 0; i < KINDS; i++) {
        if (strlen(kinds[i]) != length || memcmp(kinds[i], name, length) != 0)
            continue;
        *kind = kinds[i];
        *index = 0;
        return name[length] == '\0'
                   ? LS_OK
                   : parse_number(name, name + length + 1, index);
    }
    return lsi_fail(LS_ERR_ARGUMENT,
                    "device \"%s\": there is no such kind of device; names are "
                    "%s, for the first GPU, and %s:0, %s:1 and so on",
                    name, kinds[0], kinds[0], kinds[0]);
}

/* ---- what is there ------------------------------------------------------- */

/* The table of a kind, of which *n devices are there: one at least. */
static ls_status look(const char *kind, const lsi_device_table **out, int *n)
{
    static const lsi_module_kind devices = {LSI_DEVICE_SYMBOL,
                                            LSI_DEVICE_VERSION, false};
    const void *found = NULL;
    LS_TRY(lsi_module_load(kind, &devices, &found));
    const lsi_device_table *const table = found;
    if (table->count(n) != 0)
        return lsi_fail(LS_ERR_UNSUPPORTED, "%s", table->error(NULL));
    if (*n == 0)
        return lsi_fail(LS_ERR_UNSUPPORTED, "the driver finds no device");
    *out = table;
    return LS_OK;
}

ls_status lsi_device_find(const char *name, const lsi_device_table **table,
                          int *index)
{
    const char *kind = NULL;
    const lsi_device_table *found = NULL;
    int n = 0, which = 0;
    LS_TRY(parse(name, &kind, &which));
    const ls_status status = look(kind, &found, &n);
    if (status != LS_OK) {
        char reason[512];
        snprintf(reason, sizeof(reason), "%s", ls_last_error());
        return lsi_fail(status, "%s:%d cannot be used: %s", kind, which,
                        reason);
    }
    if (which >= n)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "there is no %s:%d here (devices there: %d, the last "
                        "is %s:%d)",
                        kind, which, n, kind, n - 1);
    *table = found;
    *index = which;
    return LS_OK;
}

static void describe(const lsi_device_table *table, int index,
                     lsi_device_entry *entry)
{
    lsi_device_facts *const facts = &entry->facts;
    memset(entry, 0, sizeof(*entry));
    snprintf(entry->name, sizeof(entry->name), "%s:%d", table->kind, index);
    if (table->describe(index, facts) == 0)
        return;
    memset(facts, 0, sizeof(*facts));
    snprintf(facts->detail, sizeof(facts->detail), "%s", table->error(NULL));
}

ls_status lsi_device_list(lsi_device_entry *entries, int room, int *n)
{
    ls_status status = LS_ERR_UNSUPPORTED;
    int listed = 0;
    for (int i = 0; i < KINDS; i++) {
        const lsi_device_table *table = NULL;
        int there = 0;
        const ls_status looked = look(kinds[i], &table, &there);
        if (looked != LS_OK)
            continue;
        for (int k = 0; k < there; k++, listed++)
            if (listed < room)
                describe(table, k, &entries[listed]);
        status = LS_OK;
    }
    if (status == LS_OK)
        *n = listed;
    return status;
}

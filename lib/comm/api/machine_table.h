/*
 * The selection lines that `lockstep tune` has measured on this machine, for
 * each number of ranks, as they are kept in the user's cache folder:
 *
 *     # Measured by lockstep tune. LOCKSTEP_TUNE=off ignores this file.
 *     lockstep: 0.1.0
 *     machine: AMD EPYC 9654, CPUs 0-3, 0123456789abcdef
 *     others: 2% of 4 CPUs
 *     2 ranks: all_reduce:0-8k:flat;8k-inf:direct|staged,broadcast:0-inf:staged
 *     3 ranks: ...
 *     crowded: ...
 *
 * A number of ranks without a line uses that of the next smaller number, unless
 * it is more than twice as large. `crowded` is for more ranks than CPUs.
 */
#ifndef LS_COMM_API_MACHINE_TABLE_H
#define LS_COMM_API_MACHINE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "comm/api/machine_key.h"
#include "lockstep/status.h"

enum { LSI_MACHINE_TABLE_BYTES = 64 * 1024 };

typedef struct lsi_machine_table {
    /* "2 ranks: LINE\ncrowded: LINE\n"; the caller's (lsi_free). */
    char *lines;
    double others; /* CPUs that other processes used before */
    int available; /* CPUs in total */
} lsi_machine_table;

/*
 * LS_ERR_IO: the file does not exist, or cannot be read. LS_ERR_FORMAT: it is
 * not of this machine and version, is damaged, others may write it, or it names
 * an algorithm that adds in another order than the rest (numerics.md). *out is
 * written on success only.
 */
ls_status lsi_machine_table_read(const lsi_machine_key *key,
                                 lsi_machine_table *out);

/* The text of such a file. LS_ERR_FORMAT if it would not be read again. */
ls_status lsi_machine_table_text(const lsi_machine_key *key,
                                 const lsi_machine_table *table, char *text,
                                 size_t bytes);

/* The first bytes of a line, for a number of ranks or more ranks than CPUs. */
void lsi_machine_table_title(int ranks, bool crowded, char *text, size_t bytes);

/* The line for `ranks` ranks, cut to fit; "" without one. */
void lsi_machine_table_line(const char *lines, int ranks, bool crowded,
                            char *line, size_t bytes);

/* Whether LOCKSTEP_TUNE lets groups use the table: "on", the default, or "off".
 */
ls_status lsi_machine_table_wanted(bool *out);

#endif

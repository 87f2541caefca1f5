/*
 * Columns that the tables of all evaluations have.
 */
#ifndef LS_CLI_COMMANDS_EVAL_COLUMNS_H
#define LS_CLI_COMMANDS_EVAL_COLUMNS_H

#include "report/table.h"

/* First: what was evaluated; a title that is empty is in the JSON only. */
#define LSI_EVAL_SUBJECT                                                       \
    LSI_COLUMN(TEXT, "model", ""), LSI_COLUMN(TEXT, "data", "Data")
#define LSI_EVAL_RANKS LSI_COLUMN(INT, "ranks", "")
#define LSI_EVAL_LOSS  LSI_COLUMN(REAL, "loss", "Loss", .decimals = 5)
/*
 * The last columns: time, and "tokens" or "images" a second. The title begins
 * with a capital letter.
 */
#define LSI_EVAL_SPEED(unit_, title_)                                          \
    LSI_COLUMN(REAL, "seconds", ""),                                           \
        LSI_COLUMN(REAL, unit_ "_per_second", title_ "/s", .decimals = 0)

#endif

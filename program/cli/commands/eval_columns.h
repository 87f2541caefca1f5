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
/* Last: of so many "tokens" or "images", with a large first letter the title.
 */
#define LSI_EVAL_SPEED(unit_, title_)                                          \
    LSI_COLUMN(REAL, "seconds", ""),                                           \
        LSI_COLUMN(REAL, unit_ "_per_second", title_ "/s", .decimals = 0)

#endif

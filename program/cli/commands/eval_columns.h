/*
 * Columns that the tables of all evaluations have.
 */
#ifndef LS_CLI_COMMANDS_EVAL_COLUMNS_H
#define LS_CLI_COMMANDS_EVAL_COLUMNS_H

#include "report/table.h"

/* First: what was evaluated; a title that is empty is in the JSON only. */
#define LSI_EVAL_SUBJECT                                                       \
    {.name = "model", .title = ""},                                            \
    {                                                                          \
        .name = "data", .title = "Data"                                        \
    }
#define LSI_EVAL_RANKS                                                         \
    {                                                                          \
        .name = "ranks", .title = "", .type = LSI_COLUMN_INT                   \
    }
#define LSI_EVAL_LOSS                                                          \
    {                                                                          \
        .name = "loss", .title = "Loss", .type = LSI_COLUMN_REAL,              \
        .decimals = 5                                                          \
    }
/* Last: of so many "tokens" or "images", with a large first letter the title.
 */
#define LSI_EVAL_SPEED(unit_, title_)                                          \
    {.name = "seconds", .title = "", .type = LSI_COLUMN_REAL},                 \
    {                                                                          \
        .name = unit_ "_per_second", .title = title_ "/s",                     \
        .type = LSI_COLUMN_REAL, .decimals = 0                                 \
    }

#endif

/*
 * Lines of text drawn as a tree:
 *
 *     machine
 *     ├─ package 0
 *     │  └─ node 0
 *     └─ package 1
 */
#ifndef LS_REPORT_TREE_H
#define LS_REPORT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lockstep/status.h"

typedef struct lsi_tree lsi_tree;

/* A tree without lines. *out is the caller's. */
ls_status lsi_tree_new(lsi_tree **out);
void lsi_tree_free(lsi_tree **tree);

/*
 * Adds a line below the last one of a smaller depth; the root has depth 0.
 * Without memory the line is left out, and printing reports it.
 */
void lsi_tree_add(lsi_tree *tree, int depth, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Prints the tree within `columns`, with long lines broken at blanks and after
 * commas, and lines drawn in ASCII or UTF-8.
 */
ls_status lsi_tree_print(const lsi_tree *tree, FILE *stream, int columns,
                         bool ascii);

/* Whether the environment's locale cannot show UTF-8. */
bool lsi_locale_is_ascii(void);

#endif

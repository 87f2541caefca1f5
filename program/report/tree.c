/* Lines of text drawn as a tree. */
#include "report/tree.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/grow.h"

typedef struct line {
    int depth;
    char *text;
} line;

struct lsi_tree {
    line *lines;
    size_t n, room;
    bool is_short; /* out of memory: a line is missing */
};

static ls_status no_memory(void)
{
    return lsi_fail(LS_ERR_MEMORY, "not enough memory to print the tree");
}

ls_status lsi_tree_new(lsi_tree **out)
{
    *out = calloc(1, sizeof(**out));
    return *out != NULL ? LS_OK : no_memory();
}

void lsi_tree_free(lsi_tree **tree)
{
    for (size_t i = 0; *tree != NULL && i < (*tree)->n; i++)
        free((*tree)->lines[i].text);
    if (*tree != NULL)
        free((*tree)->lines);
    free(*tree);
    *tree = NULL;
}

void lsi_tree_add(lsi_tree *tree, int depth, const char *format, ...)
{
    char *text;
    va_list arguments;
    if (!lsi_grow_array(&tree->lines, tree->n, &tree->room, sizeof(line))) {
        tree->is_short = true;
        return;
    }
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) >= 0)
        tree->lines[tree->n++] = (line){depth, text};
    else
        tree->is_short = true;
    va_end(arguments);
}

/* Whether a line of this depth follows before one of a smaller depth. */
static bool goes_on(const lsi_tree *tree, size_t i, int depth)
{
    for (i++; i < tree->n && tree->lines[i].depth >= depth; i++) {
        if (tree->lines[i].depth == depth)
            return true;
    }
    return false;
}

/* Bytes of the text that fit into `columns` columns; at least one word. */
static size_t fitting(const char *text, size_t columns)
{
    size_t best = 0;
    for (size_t i = 0; text[i] != '\0'; i++) {
        const bool is_break = text[i] == ' ' || text[i] == ',';
        const size_t end = text[i] == ',' ? i + 1 : i;
        if (is_break && (end <= columns || best == 0))
            best = end;
        if (i >= columns && best > 0)
            return best;
    }
    return strlen(text) <= columns || best == 0 ? strlen(text) : best;
}

static void print_line(const lsi_tree *tree, size_t i, FILE *stream,
                       int columns, bool ascii)
{
    enum { INDENT = 3, HANGING = 2 };
    const char *const bar = ascii ? "|  " : "│  ";
    const char *const branch = ascii ? "|- " : "├─ ";
    const char *const last = ascii ? "`- " : "└─ ";
    const int depth = tree->lines[i].depth;
    const char *text = tree->lines[i].text;
    for (bool first = true; first || *text != '\0'; first = false) {
        const int used = INDENT * depth + (first ? 0 : HANGING);
        const size_t left = columns > used + 20 ? (size_t)(columns - used) : 20;
        const size_t bytes = fitting(text, left);
        for (int d = 1; d < depth; d++)
            fputs(goes_on(tree, i, d) ? bar : "   ", stream);
        if (depth > 0 && first)
            fputs(goes_on(tree, i, depth) ? branch : last, stream);
        else if (depth > 0)
            fputs(goes_on(tree, i, depth) ? bar : "   ", stream);
        fprintf(stream, "%s%.*s\n", first ? "" : "  ", (int)bytes, text);
        text += bytes;
        text += strspn(text, " ");
    }
}

ls_status lsi_tree_print(const lsi_tree *tree, FILE *stream, int columns,
                         bool ascii)
{
    for (size_t i = 0; i < tree->n; i++)
        print_line(tree, i, stream, columns, ascii);
    return tree->is_short ? no_memory() : LS_OK;
}

bool lsi_locale_is_ascii(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *const value = getenv(names[i]);
        if (value != NULL && value[0] != '\0')
            return strcasestr(value, "UTF-8") == NULL &&
                   strcasestr(value, "utf8") == NULL;
    }
    return true;
}

/*
 * Documents as Markdown, as GitHub reads it.
 */
#include <ctype.h>

#include "base/error.h"
#include "report/document_private.h"

/* Writes text in which only `...` is markup. */
static void put_text(FILE *f, const char *text, bool cell)
{
    bool code = false;
    for (; *text != '\0'; text++) {
        code ^= *text == '`';
        if (*text == '|' && cell)
            fputs("\\|", f);
        else if (*text == '<' && !code)
            fputs("&lt;", f);
        else if (strchr("*_[]", *text) != NULL && !code)
            fprintf(f, "\\%c", *text);
        else
            fputc(*text == '\n' && cell ? ' ' : *text, f);
    }
}

static void put_line_of_table(FILE *f, const json_t *cells, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *const text = json_string_value(json_array_get(cells, i));
        fputs("| ", f);
        put_text(f, text != NULL ? text : "", true);
        fputc(' ', f);
    }
    fputs("|\n", f);
}

static void put_table(FILE *f, const json_t *block)
{
    const json_t *const titles = json_object_get(block, "titles");
    const json_t *const right = json_object_get(block, "right");
    const size_t n = json_array_size(titles);
    size_t i;
    const json_t *row;
    put_line_of_table(f, titles, n);
    for (i = 0; i < n; i++)
        fputs(json_is_true(json_array_get(right, i)) ? "| ---: " : "| --- ", f);
    fputs("|\n", f);
    json_array_foreach(json_object_get(block, "rows"), i, row)
    {
        put_line_of_table(f, row, n);
    }
}

static void put_block(FILE *f, const char *folder, const json_t *block)
{
    const char *const text = lsi_block_text(block, "text");
    if (lsi_block_is(block, "heading")) {
        const int level =
            (int)json_integer_value(json_object_get(block, "level"));
        for (int i = 0; i < level; i++)
            fputc('#', f);
        fputc(' ', f);
        put_text(f, text, false);
        fputc('\n', f);
    } else if (lsi_block_is(block, "item")) {
        fputs("- ", f);
        put_text(f, text, false);
        fputc('\n', f);
    } else if (lsi_block_is(block, "code")) {
        fprintf(f, "```\n%s%s```\n", text,
                text[0] != '\0' && text[strlen(text) - 1] == '\n' ? "" : "\n");
    } else if (lsi_block_is(block, "picture")) {
        fputs("![", f);
        put_text(f, text, false);
        fprintf(f, "](%s/%s.svg)\n", folder, lsi_block_text(block, "name"));
    } else if (lsi_block_is(block, "table")) {
        put_table(f, block);
    } else {
        put_text(f, text, false);
        fputc('\n', f);
    }
}

ls_status lsi_document_markdown(const lsi_document *document,
                                const char *folder, FILE *stream)
{
    size_t i;
    const json_t *block;
    bool in_list = false;
    if (document->status != LS_OK)
        return document->status;
    fputs("# ", stream);
    put_text(stream, document->title, false);
    fputc('\n', stream);
    json_array_foreach(document->blocks, i, block)
    {
        const bool item = lsi_block_is(block, "item");
        if (!item || !in_list)
            fputc('\n', stream);
        put_block(stream, folder, block);
        in_list = item;
    }
    return ferror(stream) ? lsi_fail_errno(LS_ERR_IO, "cannot write the report")
                          : LS_OK;
}

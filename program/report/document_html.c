/*
 * Documents as one HTML page that contains its style and pictures and loads
 * nothing. The page follows the reader's light or dark mode and can be printed.
 * In a narrow window, tables scroll separately.
 */
#include "base/error.h"
#include "report/document_private.h"

static const char style[] =
    ":root{color-scheme:light dark;--ink:#1f2328;--soft:#59636e;--paper:#fff;"
    "--line:#d1d9e0;--band:#f6f8fa;--link:#0550ae}\n"
    "@media (prefers-color-scheme:dark){:root{--ink:#d8dee6;--soft:#9aa4af;"
    "--paper:#12161c;--line:#363d46;--band:#1b2129;--link:#6cb0ff}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--paper);color:var(--ink);"
    "font:16px/1.55 system-ui,sans-serif}\n"
    "main{max-width:62rem;margin:0 auto;padding:1.5rem 1rem 4rem}\n"
    "h1{font-size:1.9rem;line-height:1.2;margin:.5rem 0 1rem}\n"
    "h2{font-size:1.35rem;margin:2.6rem 0 .6rem;padding-top:.8rem;"
    "border-top:1px solid var(--line)}\n"
    "h3{font-size:1.05rem;margin:1.6rem 0 .4rem}\n"
    "a{color:var(--link)}p,li{overflow-wrap:anywhere}\n"
    ".note{color:var(--soft);font-size:.9rem}\n"
    "nav ul{columns:16rem;padding-left:1.2rem}\n"
    /* Boxes wider than the text extend into its margins. */
    ".box{overflow-x:auto;margin:1rem 0;border:1px solid var(--line);"
    "border-radius:6px;width:max-content;min-width:100%;"
    "max-width:calc(100vw - 3rem);position:relative;left:50%;"
    "transform:translateX(-50%)}\n"
    "table{border-collapse:collapse;width:100%;font-size:.88rem;"
    "font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.35rem .7rem;text-align:left;vertical-align:top;"
    "border-bottom:1px solid var(--line)}\n"
    "th{background:var(--band);vertical-align:bottom}"
    "tr:last-child td{border-bottom:0}\n"
    "td.n,th.n{text-align:right}td.n,td:first-child{white-space:nowrap}\n"
    "pre{overflow-x:auto;background:var(--band);border:1px solid var(--line);"
    "border-radius:6px;padding:.7rem .9rem;font-size:.84rem;line-height:1.45}\n"
    "code{font-family:ui-monospace,monospace;font-size:.9em}"
    "p code,li code,td code{background:var(--band);padding:.1em .3em;"
    "border-radius:4px}\n"
    /* Pictures keep a least width, so that their labels stay readable. */
    "figure{margin:1.2rem 0;overflow-x:auto}figure svg{display:block;"
    "width:100%;height:auto;min-width:30rem;max-width:760px}\n"
    "figcaption{color:var(--soft);font-size:.9rem;margin-top:.3rem;"
    "position:sticky;left:0}\n"
    "@media print{body{font-size:10pt}main{max-width:none;padding:0}"
    ".box,pre,figure{overflow:visible;border:0;padding:0}"
    ".box{width:auto;max-width:none;left:0;transform:none}"
    "figure svg{min-width:0}td.n,td:first-child{white-space:normal}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere}"
    "table{font-size:7.5pt}th,td{padding:2pt 4pt}"
    "figure,tr{break-inside:avoid}h2,h3{break-after:avoid}}\n";

static void put_char(FILE *f, char c)
{
    if (c == '<')
        fputs("&lt;", f);
    else if (c == '>')
        fputs("&gt;", f);
    else if (c == '&')
        fputs("&amp;", f);
    else if (c == '"')
        fputs("&quot;", f);
    else
        fputc(c, f);
}

static void put_plain(FILE *f, const char *text)
{
    for (; *text != '\0'; text++)
        put_char(f, *text);
}

/* Writes <code> for `...`; a last '`' without another is written as it is. */
static void put_text(FILE *f, const char *text)
{
    bool code = false;
    for (; *text != '\0'; text++) {
        if (*text != '`' || (!code && strchr(text + 1, '`') == NULL)) {
            put_char(f, *text);
            continue;
        }
        code = !code;
        fputs(code ? "<code>" : "</code>", f);
    }
}

static void put_cells(FILE *f, const json_t *block, const json_t *cells,
                      const char *tag)
{
    const json_t *const right = json_object_get(block, "right");
    fputs("<tr>", f);
    for (size_t i = 0; i < json_array_size(right); i++) {
        const char *const text = json_string_value(json_array_get(cells, i));
        fprintf(f, "<%s%s>", tag,
                json_is_true(json_array_get(right, i)) ? " class=\"n\"" : "");
        put_text(f, text != NULL ? text : "");
        fprintf(f, "</%s>", tag);
    }
    fputs("</tr>\n", f);
}

static void put_table(FILE *f, const json_t *block)
{
    size_t i;
    const json_t *row;
    fputs("<div class=\"box\" tabindex=\"0\"><table>\n<thead>", f);
    put_cells(f, block, json_object_get(block, "titles"), "th");
    fputs("</thead>\n<tbody>\n", f);
    json_array_foreach(json_object_get(block, "rows"), i, row)
    {
        put_cells(f, block, row, "td");
    }
    fputs("</tbody></table></div>\n", f);
}

static void put_picture(FILE *f, const json_t *block)
{
    fputs("<figure role=\"group\" aria-label=\"", f);
    put_plain(f, lsi_block_text(block, "text"));
    fprintf(f, "\">\n%s<figcaption>", lsi_block_text(block, "svg"));
    put_text(f, lsi_block_text(block, "text"));
    fputs("</figcaption></figure>\n", f);
}

static void put_element(FILE *f, const char *open, const char *text,
                        const char *close)
{
    fputs(open, f);
    put_text(f, text);
    fputs(close, f);
}

static void put_block(FILE *f, const json_t *block, size_t number)
{
    const char *const text = lsi_block_text(block, "text");
    if (lsi_block_is(block, "heading")) {
        const int level =
            (int)json_integer_value(json_object_get(block, "level"));
        fprintf(f, "<h%d id=\"s%zu\">", level, number);
        put_text(f, text);
        fprintf(f, "</h%d>\n", level);
    } else if (lsi_block_is(block, "item")) {
        put_element(f, "<li>", text, "</li>\n");
    } else if (lsi_block_is(block, "code")) {
        fputs("<pre tabindex=\"0\"><code>", f);
        put_plain(f, text);
        fputs("</code></pre>\n", f);
    } else if (lsi_block_is(block, "picture")) {
        put_picture(f, block);
    } else if (lsi_block_is(block, "table")) {
        put_table(f, block);
    } else if (lsi_block_is(block, "note")) {
        put_element(f, "<p class=\"note\">", text, "</p>\n");
    } else {
        put_element(f, "<p>", text, "</p>\n");
    }
}

static void put_contents(FILE *f, const lsi_document *document)
{
    size_t i;
    const json_t *block;
    fputs("<nav aria-label=\"Contents\"><ul>\n", f);
    json_array_foreach(document->blocks, i, block)
    {
        if (!lsi_block_is(block, "heading") ||
            json_integer_value(json_object_get(block, "level")) != 2)
            continue;
        fprintf(f, "<li><a href=\"#s%zu\">", i);
        put_text(f, lsi_block_text(block, "text"));
        fputs("</a></li>\n", f);
    }
    fputs("</ul></nav>\n", f);
}

ls_status lsi_document_html(const lsi_document *document, FILE *stream)
{
    size_t i;
    const json_t *block;
    bool in_list = false;
    if (document->status != LS_OK)
        return document->status;
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta "
          "charset=\"utf-8\">\n<meta name=\"viewport\" "
          "content=\"width=device-width,initial-scale=1\">\n<title>",
          stream);
    put_plain(stream, document->title);
    fprintf(stream, "</title>\n<style>\n%s</style>\n</head>\n<body><main>\n",
            style);
    put_element(stream, "<h1>", document->title, "</h1>\n");
    put_contents(stream, document);
    json_array_foreach(document->blocks, i, block)
    {
        const bool item = lsi_block_is(block, "item");
        if (item != in_list)
            fputs(item ? "<ul>\n" : "</ul>\n", stream);
        put_block(stream, block, i);
        in_list = item;
    }
    fputs(in_list ? "</ul>\n</main></body>\n</html>\n"
                  : "</main></body>\n</html>\n",
          stream);
    return ferror(stream) ? lsi_fail_errno(LS_ERR_IO, "cannot write the report")
                          : LS_OK;
}

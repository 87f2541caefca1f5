/*
 * Documents: both forms of one, and texts that mean themselves.
 */
#include <stdio.h>
#include <stdlib.h>

#include "report/document.h"
#include "testing.h"

static const char *const titles[] = {"name | <x>", "ms"};
static const bool numbers[] = {false, true};
static const char *const cells[] = {"a_b `c|d` <e>", "1.5"};

static lsi_document *make(void)
{
    lsi_document *d = NULL;
    assert_ok(lsi_document_new(&d, "Costs & <more>"));
    lsi_document_heading(d, 2, "Part %d", 1);
    lsi_document_paragraph(d, "%s takes `%s` ms*", "a < b", "1 < 2");
    lsi_document_item(d, "one");
    lsi_document_item(d, "two");
    lsi_document_table(d, titles, numbers, 2);
    lsi_document_row(d, cells, 2);
    lsi_document_row(d, (const char *const[]){NULL, "2"}, 2);
    lsi_document_code(d, "run <it>\n");
    lsi_document_picture(d, "pic", "<svg></svg>", "A \"picture\"");
    return d;
}

static char *written(const lsi_document *d, bool html)
{
    char *text;
    size_t bytes;
    FILE *const stream = open_memstream(&text, &bytes);
    assert_ok(html ? lsi_document_html(d, stream)
                   : lsi_document_markdown(d, "plots", stream));
    fclose(stream);
    return text;
}

static void assert_in(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no \"%s\" in:\n%s", part, text);
}

static void markdown(void **state)
{
    (void)state;
    lsi_document *d = make();
    char *text = written(d, false);
    assert_string_equal(text, "# Costs & &lt;more>\n"
                              "\n## Part 1\n"
                              "\na &lt; b takes `1 < 2` ms\\*\n"
                              "\n- one\n- two\n"
                              "\n| name \\| &lt;x> | ms |\n| --- | ---: |\n"
                              "| a\\_b `c\\|d` &lt;e> | 1.5 |\n|  | 2 |\n"
                              "\n```\nrun <it>\n```\n"
                              "\n![A \"picture\"](plots/pic.svg)\n");
    free(text);
    lsi_document_free(&d);
    assert_null(d);
}

static void html(void **state)
{
    (void)state;
    lsi_document *d = make();
    char *text = written(d, true);
    assert_in(text, "<title>Costs &amp; &lt;more&gt;</title>");
    assert_in(text, "<li><a href=\"#s0\">Part 1</a></li>");
    assert_in(text, "<p>a &lt; b takes <code>1 &lt; 2</code> ms*</p>");
    assert_in(text, "<ul>\n<li>one</li>\n<li>two</li>\n</ul>\n");
    assert_in(text, "<th>name | &lt;x&gt;</th><th class=\"n\">ms</th>");
    assert_in(text, "<td>a_b <code>c|d</code> &lt;e&gt;</td>");
    assert_in(text, "<td></td><td class=\"n\">2</td>");
    assert_in(text, "<code>run &lt;it&gt;\n</code></pre>");
    assert_in(text, "aria-label=\"A &quot;picture&quot;\">\n<svg></svg>");
    assert_in(text, "prefers-color-scheme:dark");
    assert_in(text, "@media print");
    assert_in(text, "width=device-width");
    assert_null(strstr(text, "http")); /* nothing is loaded */
    free(text);
    lsi_document_free(&d);
}

static void errors_stick(void **state)
{
    (void)state;
    lsi_document *d = NULL;
    char *text;
    size_t bytes;
    assert_ok(lsi_document_new(&d, "t"));
    lsi_document_row(d, cells, 2);
    assert_error(lsi_document_html(d, stdout), LS_ERR_STATE, "row");
    lsi_document_free(&d);
    assert_ok(lsi_document_new(&d, "t"));
    lsi_document_paragraph(d, "%s", "\xff");
    FILE *const stream = open_memstream(&text, &bytes);
    assert_error(lsi_document_html(d, stream), LS_ERR_MEMORY, "UTF-8");
    fclose(stream);
    free(text);
    lsi_document_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markdown),
        cmocka_unit_test(html),
        cmocka_unit_test(errors_stick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

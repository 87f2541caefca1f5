/*
 * A document of headings, paragraphs, tables, program text and pictures, made
 * once and written as one HTML page that needs nothing else, and as Markdown.
 *
 *     lsi_document_new(&document, "What it costs");
 *     lsi_document_heading(document, 2, "All-reduce");
 *     lsi_document_paragraph(document, "On %d ranks `flat` takes %.1f us.",
 *                            2, 1.3);
 *     lsi_document_html(document, stream);
 *
 * In paragraphs, lists and cells `...` is program text; everything else means
 * itself. Errors stick to the document: what adds returns nothing, what writes
 * returns the first error.
 */
#ifndef LS_REPORT_DOCUMENT_H
#define LS_REPORT_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lockstep/status.h"

typedef struct lsi_document lsi_document;

/* *out is the caller's. */
ls_status lsi_document_new(lsi_document **out, const char *title);
void lsi_document_free(lsi_document **document);

/* Adds a text of one of the kinds below. */
void lsi_document_text(lsi_document *document, const char *kind, int level,
                       const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A heading of level 2 (listed in the contents) or 3. */
#define lsi_document_heading(document, level, ...)                             \
    lsi_document_text(document, "heading", level, __VA_ARGS__)
#define lsi_document_paragraph(document, ...)                                  \
    lsi_document_text(document, "paragraph", 0, __VA_ARGS__)

/* A note in smaller type, such as the method of a measurement. */
#define lsi_document_note(document, ...)                                       \
    lsi_document_text(document, "note", 0, __VA_ARGS__)

/* One item of a list; consecutive items form one list. */
#define lsi_document_item(document, ...)                                       \
    lsi_document_text(document, "item", 0, __VA_ARGS__)

/* Program text, with its line breaks. */
void lsi_document_code(lsi_document *document, const char *text);

/* An SVG (report/plot.h) under a name of letters, digits and '-'. */
void lsi_document_picture(lsi_document *document, const char *name,
                          const char *svg, const char *caption);

/*
 * Begins a table. `numbers` says which columns are aligned to the right, or is
 * NULL.
 */
void lsi_document_table(lsi_document *document, const char *const *titles,
                        const bool *numbers, size_t n);

/* A row of the most recent table; NULL is an empty cell. */
void lsi_document_row(lsi_document *document, const char *const *cells,
                      size_t n);

/*
 * Writes HTML with the pictures in the page. Returns the first error of any
 * function above.
 */
ls_status lsi_document_html(const lsi_document *document, FILE *stream);

/*
 * Writes Markdown that refers to pictures FOLDER/NAME.svg, which the caller has
 * written.
 */
ls_status lsi_document_markdown(const lsi_document *document,
                                const char *folder, FILE *stream);

#endif

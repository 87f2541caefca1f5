/*
 * The colours that change between light and dark pages. gnuplot writes them as
 * it is told; a rule of style, which knows them, replaces them on dark pages.
 */
#ifndef LS_REPORT_PLOT_COLOURS_H
#define LS_REPORT_PLOT_COLOURS_H

#define LSI_PLOT_INK  "#202021"
#define LSI_PLOT_GRID "#a0a0a1"

/* As gnuplot's SVG says them: texts, and lines. */
#define LSI_PLOT_INK_FILL    "rgb(32,32,33)"
#define LSI_PLOT_INK_STROKE  "rgb( 32,  32,  33)"
#define LSI_PLOT_GRID_STROKE "rgb(160, 160, 161)"

/* The first colour of the palette, which is dark. */
#define LSI_PLOT_BLUE "rgb(  0, 114, 178)"

#define LSI_PLOT_STYLE                                                         \
    "<style>@media (prefers-color-scheme:dark){"                               \
    "[fill=\"" LSI_PLOT_INK_FILL "\"]{fill:#d8dee6}"                           \
    "[stroke=\"" LSI_PLOT_INK_STROKE "\"]{stroke:#d8dee6}"                     \
    "[fill=\"" LSI_PLOT_BLUE "\"]{fill:#2f8fd6}"                               \
    "[stroke=\"" LSI_PLOT_BLUE "\"]{stroke:#2f8fd6}"                           \
    "[color=\"" LSI_PLOT_BLUE "\"]{color:#2f8fd6}"                             \
    "[stroke=\"" LSI_PLOT_GRID_STROKE "\"]{stroke:#4a525c}}</style>\n"

#endif

#include "report/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { USUAL_WIDTH = 80, MAX_WIDTH = 10000 };

bool lsi_terminal_redraws(FILE *stream)
{
    const char *const term = getenv("TERM");
    return stream != NULL && isatty(fileno(stream)) && term != NULL &&
           term[0] != '\0' && strcmp(term, "dumb") != 0;
}

int lsi_terminal_width(FILE *stream)
{
    struct winsize size;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    const char *const columns = getenv("COLUMNS");
    const long told = columns != NULL ? strtol(columns, NULL, 10) : 0;
    return told > 0 && told <= MAX_WIDTH ? (int)told : USUAL_WIDTH;
}

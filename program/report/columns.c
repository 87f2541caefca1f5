/* Widths as in the C library's UTF-8 locale, whatever locale the user has. */
#include "report/columns.h"

#include <locale.h>
#include <pthread.h>
#include <string.h>
#include <wchar.h>

static locale_t utf8; /* 0: the C library has no such locale */

static void open_locale(void)
{
    utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/* Switches this thread to UTF-8; returns the locale to restore at the end. */
static locale_t begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, open_locale);
    return uselocale(utf8);
}

/* Bytes of the first character; *columns: columns that it adds. */
static size_t next_character(const char *text, size_t bytes, int *columns)
{
    wchar_t c;
    mbstate_t state = {0};
    if (utf8 == (locale_t)0) { /* count all but continuation bytes */
        *columns = ((unsigned char)text[0] & 0xc0) != 0x80;
        return 1;
    }
    const size_t n = mbrtowc(&c, text, bytes, &state);
    if (n == 0 || n > bytes) {
        *columns = 1;
        return 1;
    }
    const int width = wcwidth(c);
    *columns = width < 0 ? 1 : width;
    return n;
}

int lsi_columns_of_text(const char *text, size_t bytes)
{
    const locale_t before = begin();
    int all = 0, columns;
    for (size_t at = 0; at < bytes; all += columns)
        at += next_character(text + at, bytes - at, &columns);
    (void)uselocale(before);
    return all;
}

size_t lsi_columns_fitting(const char *text, int columns)
{
    const locale_t before = begin();
    const size_t bytes = strlen(text);
    size_t at = 0;
    int used = 0;
    while (at < bytes) {
        int more;
        const size_t n = next_character(text + at, bytes - at, &more);
        if (used + more > columns && used > 0)
            break;
        used += more;
        at += n;
    }
    (void)uselocale(before);
    return at;
}

#include "model/parallel/layer_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "observe/names.h"

size_t lsi_layer_name_length(const char *parameter)
{
    size_t at = 0, last = 0, number = 0;
    const size_t n = strlen(parameter);
    for (size_t i = 0; i <= n; i++) {
        if (parameter[i] != '.' && parameter[i] != '\0')
            continue;
        size_t digits = at;
        while (digits < i && isdigit((unsigned char)parameter[digits]))
            digits++;
        if (digits == i && i > at)
            number = i;
        if (parameter[i] == '.')
            last = i;
        at = i + 1;
    }
    return number > 0 ? number : last > 0 ? last : n;
}

bool lsi_is_same_layer(const char *a, const char *b)
{
    const size_t n = lsi_layer_name_length(a);
    return lsi_layer_name_length(b) == n && memcmp(a, b, n) == 0;
}

void lsi_layer_span_end(lsi_span_kind kind, const char *parameter,
                        lsi_span span, int node)
{
    char layer[LSI_NAME_BYTES];
    if (span.begin == 0)
        return;
    snprintf(layer, sizeof(layer), "%.*s",
             (int)lsi_layer_name_length(parameter), parameter);
    lsi_span_end(kind, layer, span.begin, span.bytes, span.work,
                 (uint64_t)node);
}

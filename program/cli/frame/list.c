/*
 * Comma-separated values.
 */
#include "cli/frame/list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"

typedef ls_status (*parse_fn)(const char *text, int64_t *out);

static ls_status parse_number(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno == ERANGE)
        return lsi_fail(LS_ERR_ARGUMENT, "'%s' is not a whole number", text);
    *out = value;
    return LS_OK;
}

static ls_status parse_item(const char *flag, const char *text, int64_t min,
                            int64_t max, parse_fn parse, int64_t *out)
{
    if (parse(text, out) != LS_OK)
        return lsi_fail(LS_ERR_ARGUMENT, "%s: %s", flag, ls_last_error());
    if (*out < min || *out > max)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s: %s is out of range: %" PRId64 " to %" PRId64, flag,
                        text, min, max);
    return LS_OK;
}

static ls_status parse_list(const char *flag, const char *text, int64_t min,
                            int64_t max, parse_fn parse, lsi_list *out)
{
    lsi_list list = {.n = 0};
    for (const char *at = text;; at++) {
        char item[32];
        const size_t length = strcspn(at, ",");
        if (length >= sizeof(item))
            return lsi_fail(LS_ERR_ARGUMENT,
                            "%s: '%s' is not a list of numbers", flag, text);
        if (list.n == LSI_LIST_MAX)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "%s: more than %d values; give fewer", flag,
                            LSI_LIST_MAX);
        memcpy(item, at, length);
        item[length] = '\0';
        LS_TRY(parse_item(flag, item, min, max, parse, &list.values[list.n]));
        list.n++;
        at += length;
        if (*at == '\0')
            break;
    }
    *out = list;
    return LS_OK;
}

ls_status lsi_list_of_numbers(const char *flag, const char *text, int64_t min,
                              int64_t max, lsi_list *out)
{
    return parse_list(flag, text, min, max, parse_number, out);
}

ls_status lsi_list_of_sizes(const char *flag, const char *text, int64_t min,
                            int64_t max, lsi_list *out)
{
    return parse_list(flag, text, min, max, lsi_parse_bytes, out);
}

ls_status lsi_each_word(const char *flag, const char *text, lsi_word_fn fn,
                        void *context)
{
    char copy[256];
    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
        return lsi_fail(LS_ERR_ARGUMENT, "%s has more than 255 characters",
                        flag);
    char *rest = copy;
    for (char *word = strsep(&rest, ","); word != NULL;
         word = strsep(&rest, ","))
        LS_TRY(fn(context, word));
    return LS_OK;
}

ls_status lsi_list_of_steps(const lsi_list_steps *steps, lsi_list *out)
{
    if (steps->min > steps->max)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "-b %" PRId64 " is more than -e %" PRId64
                        "; sizes go from -b to -e",
                        steps->min, steps->max);
    out->n = 0;
    for (int64_t size = steps->min; size <= steps->max;) {
        if (out->n == LSI_LIST_MAX)
            return lsi_fail(
                LS_ERR_ARGUMENT,
                "more than %d sizes from -b to -e; use larger steps",
                LSI_LIST_MAX);
        out->values[out->n++] = size;
        if (steps->add > 0)
            size += steps->add;
        else
            size = size == 0 ? 1 : size * steps->factor;
    }
    return LS_OK;
}

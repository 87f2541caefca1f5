/*
 * Arrays as NumPy saves them (numpy.lib.format): a magic, a version, the length
 * of a header, the header, which is a Python dictionary, the elements. And IDX,
 * as MNIST has it: two zeros, a type, the number of dimensions, these, big
 * endian, the elements.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "input/data/arrays.h"

/* ---- the header ---------------------------------------------------------- */

typedef struct text {
    const char *at, *end;
    const char *where;
} text;

static ls_status bad_header(const text *t, const char *what)
{
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is an .npy file with a damaged header: %s", t->where,
                    what);
}

static void skip_spaces(text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n'))
        t->at++;
}

static bool accept_word(text *t, const char *word)
{
    const size_t n = strlen(word);
    skip_spaces(t);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n) != 0)
        return false;
    t->at += n;
    return true;
}

/* 'descr' or "descr". */
static ls_status parse_string(text *t, char *out, size_t room)
{
    size_t n = 0;
    skip_spaces(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
        return bad_header(t, "a string is missing");
    const char quote = *t->at++;
    while (t->at < t->end && *t->at != quote && n + 1 < room)
        out[n++] = *t->at++;
    out[n] = '\0';
    if (t->at == t->end || *t->at != quote)
        return bad_header(t, "a string is too long or not closed");
    t->at++;
    return LS_OK;
}

static ls_status parse_number(text *t, int64_t *out)
{
    int64_t value = 0;
    skip_spaces(t);
    if (t->at == t->end || *t->at < '0' || *t->at > '9')
        return bad_header(t, "an extent is not a number");
    while (t->at < t->end && *t->at >= '0' && *t->at <= '9') {
        if (value > (INT64_MAX - 9) / 10)
            return bad_header(t, "an extent is too large");
        value = value * 10 + (*t->at++ - '0');
    }
    (void)accept_word(t, "L"); /* as Python 2 wrote it */
    *out = value;
    return LS_OK;
}

static ls_status parse_shape(text *t, lsi_file_array *out)
{
    out->ndim = 0;
    if (!accept_word(t, "("))
        return bad_header(t, "the shape is not a tuple");
    while (!accept_word(t, ")")) {
        if (out->ndim == LS_MAX_DIMS)
            return lsi_fail(LS_ERR_UNSUPPORTED,
                            "'%s' has more than %d dimensions", t->where,
                            LS_MAX_DIMS);
        LS_TRY(parse_number(t, &out->shape[out->ndim++]));
        if (!accept_word(t, ",")) {
            if (!accept_word(t, ")"))
                return bad_header(
                    t, "the closing parenthesis of the shape is missing");
            break;
        }
    }
    return LS_OK;
}

/* '<f4' and so on. */
static ls_status parse_type(text *t, lsi_file_array *out)
{
    char descr[24] = "";
    if (accept_word(t, "["))
        return lsi_fail(
            LS_ERR_UNSUPPORTED,
            "'%s' is an array of records; save each field as a separate array",
            t->where);
    LS_TRY(parse_string(t, descr, sizeof descr));
    const size_t n = strlen(descr);
    const bool known = n == 3 && strchr("<|=", descr[0]) != NULL &&
                       strchr("biuf", descr[1]) != NULL &&
                       strchr("1248", descr[2]) != NULL &&
                       (descr[1] != 'b' || descr[2] == '1') &&
                       (descr[1] != 'f' || descr[2] != '1');
    if (!known)
        return lsi_fail(
            LS_ERR_UNSUPPORTED,
            "'%s' is an array of type '%s'; only little-endian integers, "
            "floats and bools of 1 to 8 bytes are supported",
            t->where, descr);
    out->kind = descr[1];
    out->size = (size_t)(descr[2] - '0');
    return LS_OK;
}

static ls_status parse_order(text *t, lsi_file_array *out)
{
    (void)out;
    if (accept_word(t, "False"))
        return LS_OK;
    if (!accept_word(t, "True"))
        return bad_header(t, "fortran_order is neither True nor False");
    return lsi_fail(LS_ERR_UNSUPPORTED,
                    "'%s' is in Fortran order; convert the array with "
                    "numpy.ascontiguousarray and save it again",
                    t->where);
}

static ls_status parse_dictionary(text *t, lsi_file_array *out)
{
    bool has_type = false, has_order = false, has_shape = false;
    if (!accept_word(t, "{"))
        return bad_header(t, "it is not a dictionary");
    while (!accept_word(t, "}")) {
        char key[16];
        LS_TRY(parse_string(t, key, sizeof key));
        if (!accept_word(t, ":"))
            return bad_header(t, "a colon is missing");
        if (strcmp(key, "descr") == 0 && !has_type) {
            has_type = true;
            LS_TRY(parse_type(t, out));
        } else if (strcmp(key, "fortran_order") == 0 && !has_order) {
            has_order = true;
            LS_TRY(parse_order(t, out));
        } else if (strcmp(key, "shape") == 0 && !has_shape) {
            has_shape = true;
            LS_TRY(parse_shape(t, out));
        } else {
            return bad_header(t, "it has an unknown or repeated key");
        }
        (void)accept_word(t, ",");
    }
    if (!has_type || !has_order || !has_shape)
        return bad_header(t, "descr, fortran_order or shape is missing");
    return LS_OK;
}

/* ---- elements ------------------------------------------------------------ */

/* "(3, 4)" */
static void print_shape(char *out, size_t room, const lsi_file_array *a)
{
    size_t n = (size_t)snprintf(out, room, "(");
    for (int i = 0; i < a->ndim && n < room; i++)
        n += (size_t)snprintf(out + n, room - n, "%s%" PRId64,
                              i > 0 ? ", " : "", a->shape[i]);
    if (n < room)
        snprintf(out + n, room - n, ")");
}

static ls_status check_bytes(const lsi_file_array *a, size_t bytes,
                             const char *where)
{
    uint64_t want = a->size;
    char shape[160];
    for (int i = 0; i < a->ndim; i++) {
        if (a->shape[i] > 0 && want > INT64_MAX / (uint64_t)a->shape[i])
            want = INT64_MAX; /* more than any file has */
        else
            want *= (uint64_t)a->shape[i];
    }
    if (want == bytes)
        return LS_OK;
    print_shape(shape, sizeof shape, a);
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is damaged or cut off: an array of shape %s with "
                    "elements of %zu bytes needs %" PRIu64
                    " bytes, but %zu follow the header",
                    where, shape, a->size, want, bytes);
}

ls_status lsi_npy_parse(lsi_file_array *out, const uint8_t *data, size_t bytes,
                        const char *where)
{
    enum { MAGIC = 6, SHORT_HEADER = 10, LONG_HEADER = 12 };
    text t = {.where = where};
    lsi_file_array made = {0};
    size_t at = SHORT_HEADER, length = 0;
    if (bytes < LONG_HEADER || memcmp(data, "\x93NUMPY", MAGIC) != 0)
        return lsi_fail(LS_ERR_FORMAT, "'%s' is not an .npy file", where);
    length = (size_t)data[8] | (size_t)data[9] << 8;
    if (data[MAGIC] >= 2) {
        at = LONG_HEADER;
        length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    }
    if (data[MAGIC] < 1 || data[MAGIC] > 3)
        return lsi_fail(
            LS_ERR_UNSUPPORTED,
            "'%s' is an .npy file of version %d; versions 1 to 3 are supported",
            where, data[MAGIC]);
    if (length > bytes - at)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' is an .npy file that ends within its header",
                        where);
    t.at = (const char *)data + at;
    t.end = t.at + length;
    LS_TRY(parse_dictionary(&t, &made));
    LS_TRY(check_bytes(&made, bytes - at - length, where));
    made.data = data + at + length;
    *out = made;
    return LS_OK;
}

ls_status lsi_idx_parse(lsi_file_array *out, const uint8_t *data, size_t bytes,
                        const char *where)
{
    enum { HEADER = 4, UNSIGNED_BYTE = 0x08 };
    lsi_file_array made = {.kind = 'u', .size = 1};
    if (bytes < HEADER || data[0] != 0 || data[1] != 0)
        return lsi_fail(LS_ERR_FORMAT, "'%s' is not an IDX file", where);
    if (data[2] != UNSIGNED_BYTE)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "'%s' is an IDX file of type 0x%02x; only unsigned "
                        "bytes (0x08) are supported",
                        where, data[2]);
    made.ndim = data[3];
    if (made.ndim < 1 || made.ndim > LS_MAX_DIMS ||
        bytes < HEADER + 4 * (size_t)made.ndim)
        return lsi_fail(LS_ERR_FORMAT,
                        "the IDX file '%s' is cut off or has an unsupported "
                        "number of dimensions (%d); expected 1 to %d",
                        where, made.ndim, LS_MAX_DIMS);
    for (int i = 0; i < made.ndim; i++) {
        const uint8_t *b = data + HEADER + 4 * i;
        made.shape[i] = (int64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
    }
    const size_t at = HEADER + 4 * (size_t)made.ndim;
    LS_TRY(check_bytes(&made, bytes - at, where));
    made.data = data + at;
    *out = made;
    return LS_OK;
}

/* Tokens to text. */
#include <inttypes.h>

#include "base/error.h"
#include "base/memory.h"
#include "input/text/tokenizer.h"
#include "input/text/unicode.h"

static const uint8_t replacement[] = {0xef, 0xbf, 0xbd}; /* U+FFFD */

struct ls_decoder {
    const struct ls_tokenizer *t;
    bool special;
    bool begun;         /* a token has been written */
    size_t strip;       /* blanks at the beginning still to be left out */
    bool bytes_waiting; /* the waiting tokens are single bytes */
    lsi_bytes waiting;  /* the beginning of a character */
    lsi_bytes out;      /* returned by the last call */
};

/* ---- characters ---------------------------------------------------------- */

static ls_status write_text(ls_decoder *d, lsi_text text)
{
    while (d->strip > 0 && text.n > 0) {
        if (text.at[0] != ' ') {
            d->strip = 0;
            break;
        }
        text.at++;
        text.n--;
        d->strip--;
    }
    return lsi_bytes_add(&d->out, text.at, text.n);
}

static ls_status write_replacements(ls_decoder *d, size_t n)
{
    for (size_t i = 0; i < n; i++)
        LS_TRY(write_text(d, (lsi_text){replacement, sizeof replacement}));
    return LS_OK;
}

/*
 * Writes the complete characters of the waiting bytes. Bytes that are not UTF-8
 * become U+FFFD: each byte if the tokens were single bytes, else as Unicode
 * defines it.
 */
static ls_status write_whole(ls_decoder *d)
{
    size_t at = 0;
    while (at < d->waiting.n) {
        const lsi_text rest = {d->waiting.at + at, d->waiting.n - at};
        const int n = lsi_utf8_next(rest.at, rest.n);
        if (n == 0)
            break;
        if (n > 0) {
            LS_TRY(write_text(d, (lsi_text){rest.at, (size_t)n}));
            at += (size_t)n;
        } else {
            const size_t wrong = (size_t)-n;
            LS_TRY(write_replacements(d, d->bytes_waiting ? wrong : 1));
            at += wrong;
        }
    }
    if (at == 0)
        return LS_OK;
    d->waiting.n -= at;
    memmove(d->waiting.at, d->waiting.at + at, d->waiting.n);
    return LS_OK;
}

/* The waiting bytes will not be completed. */
static ls_status give_up(ls_decoder *d)
{
    const size_t n = d->waiting.n;
    d->waiting.n = 0;
    if (n == 0)
        return LS_OK;
    return write_replacements(d, d->bytes_waiting ? n : 1);
}

/* ---- tokens -------------------------------------------------------------- */

/* Without the marks that `tokenizers` leaves out of the first token. */
static ls_status write_first(ls_decoder *d, uint32_t id)
{
    const lsi_word *const mark = &d->t->decoding.mark;
    const lsi_text text = lsi_vocabulary_content(&d->t->vocabulary, id);
    for (size_t at = 0; at < text.n;) {
        if (text.n - at >= mark->n &&
            memcmp(text.at + at, mark->at, mark->n) == 0) {
            at += mark->n;
            continue;
        }
        LS_TRY(lsi_bytes_add(&d->waiting, text.at + at, 1));
        at++;
    }
    return LS_OK;
}

static ls_status write_token(ls_decoder *d, uint32_t id)
{
    const lsi_decoding *const how = &d->t->decoding;
    const lsi_text text = lsi_vocabulary_text(&d->t->vocabulary, id);
    const bool byte = (d->t->vocabulary.tokens[id].flags & LSI_TOKEN_BYTE) != 0;
    if (byte != d->bytes_waiting)
        LS_TRY(give_up(d));
    d->bytes_waiting = byte;
    if (how->joined_by_blanks && d->begun)
        LS_TRY(lsi_bytes_add(&d->waiting, " ", 1));
    if (!d->begun && how->mark.n > 0 && !byte)
        LS_TRY(write_first(d, id));
    else
        LS_TRY(lsi_bytes_add(&d->waiting, text.at, text.n));
    d->begun = true;
    return write_whole(d);
}

static ls_status check_id(const struct ls_tokenizer *t, int64_t id)
{
    if (id >= 0 && (size_t)id < t->vocabulary.n &&
        (t->vocabulary.tokens[id].flags & LSI_TOKEN_THERE) != 0)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "the tokenizer has no token %" PRId64
                    "; its token ids are below %zu",
                    id, t->vocabulary.n);
}

/* ---- one after another --------------------------------------------------- */

ls_status ls_decoder_new(ls_decoder **out, const ls_tokenizer *tokenizer,
                         ls_tokenizer_flags flags)
{
    LS_NEED(out, tokenizer);
    LS_TRY(
        lsi_alloc_zeroed(out, sizeof(ls_decoder), LS_MEMORY_DATA, "a decoder"));
    (*out)->t = tokenizer;
    (*out)->special = (flags & LS_TOKENIZER_SPECIAL) != 0;
    (*out)->strip = tokenizer->decoding.strip;
    return LS_OK;
}

static ls_status push(ls_decoder *d, int64_t id)
{
    LS_TRY(check_id(d->t, id));
    if (!d->special && ls_tokenizer_is_special(d->t, id))
        return LS_OK;
    return write_token(d, (uint32_t)id);
}

/* There is a pointer even if nothing has been written. */
static ls_status give(ls_decoder *d, const char **text, size_t *bytes)
{
    LS_TRY(lsi_bytes_reserve(&d->out, 1));
    d->out.at[d->out.n] = '\0';
    *text = (const char *)d->out.at;
    *bytes = d->out.n;
    return LS_OK;
}

ls_status ls_decoder_push(ls_decoder *decoder, int64_t id, const char **text,
                          size_t *bytes)
{
    LS_NEED(decoder, text, bytes);
    decoder->out.n = 0;
    LS_TRY(push(decoder, id));
    return give(decoder, text, bytes);
}

ls_status ls_decoder_finish(ls_decoder *decoder, const char **text,
                            size_t *bytes)
{
    LS_NEED(decoder, text, bytes);
    decoder->out.n = 0;
    LS_TRY(give_up(decoder));
    return give(decoder, text, bytes);
}

void ls_decoder_free(ls_decoder **decoder)
{
    if (decoder == NULL || *decoder == NULL)
        return;
    lsi_free((*decoder)->waiting.at);
    lsi_free((*decoder)->out.at);
    lsi_free(*decoder);
    *decoder = NULL;
}

/* ---- all at once --------------------------------------------------------- */

/*
 * How many tokens of single bytes follow one another, and whether they are
 * UTF-8: `tokenizers` takes each of them for U+FFFD if one is not.
 */
static ls_status byte_run(ls_decoder *d, const int64_t *ids, size_t n,
                          size_t *length, bool *valid)
{
    const struct ls_tokenizer *const t = d->t;
    d->waiting.n = 0;
    for (*length = 0; *length < n; ++*length) {
        LS_TRY(check_id(t, ids[*length]));
        const uint32_t id = (uint32_t)ids[*length];
        if (!d->special && ls_tokenizer_is_special(t, id))
            continue;
        if ((t->vocabulary.tokens[id].flags & LSI_TOKEN_BYTE) == 0)
            break;
        LS_TRY(lsi_bytes_add(&d->waiting,
                             lsi_vocabulary_text(&t->vocabulary, id).at, 1));
    }
    *valid = lsi_utf8_valid(d->waiting.at, d->waiting.n) == d->waiting.n;
    return LS_OK;
}

static ls_status decode_all(ls_decoder *d, const int64_t *ids, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t length = 0;
        bool valid = true;
        LS_TRY(check_id(d->t, ids[i]));
        if ((d->t->vocabulary.tokens[ids[i]].flags & LSI_TOKEN_BYTE) != 0) {
            LS_TRY(give_up(d));
            LS_TRY(byte_run(d, ids + i, n - i, &length, &valid));
            d->bytes_waiting = d->begun = true;
            LS_TRY(valid ? write_whole(d) : give_up(d));
            i += length;
            continue;
        }
        LS_TRY(push(d, ids[i++]));
    }
    return give_up(d);
}

ls_status ls_tokenizer_decode(const ls_tokenizer *tokenizer, const int64_t *ids,
                              size_t n, ls_tokenizer_flags flags, char **text,
                              size_t *bytes)
{
    ls_decoder *d = NULL;
    const char *made;
    LS_NEED(tokenizer);
    if (n > 0)
        LS_NEED(ids);
    LS_NEED(bytes, text);
    LS_TRY(ls_decoder_new(&d, tokenizer, flags));
    ls_status status = decode_all(d, ids, n);
    if (status == LS_OK)
        status = give(d, &made, bytes);
    if (status == LS_OK) {
        *text = (char *)d->out.at;
        d->out.at = NULL;
    }
    ls_decoder_free(&d);
    return status;
}

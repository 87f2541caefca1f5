#include "report/text_stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/grow.h"
#include "report/size_text.h"

/* Includes one byte for the terminating zero. */
static bool make_room(lsi_text_stream *s, size_t bytes)
{
    while (s->room <= s->bytes + bytes)
        if (!lsi_grow_array(&s->text, s->room, &s->room, 1))
            return false;
    return true;
}

/* Returns 0 for an error, as fopencookie requires. */
static ssize_t append(void *context, const char *data, size_t bytes)
{
    lsi_text_stream *const s = context;
    if (s->full || !make_room(s, bytes)) {
        s->full = true;
        return 0;
    }
    memcpy(s->text + s->bytes, data, bytes);
    s->bytes += bytes;
    return (ssize_t)bytes;
}

static ls_status no_memory(const lsi_text_stream *s)
{
    char size[LSI_SIZE_TEXT];
    lsi_size_text(size, s->bytes);
    return lsi_fail(LS_ERR_MEMORY,
                    "not enough memory for a text longer than %s", size);
}

ls_status lsi_text_stream_open(lsi_text_stream *stream)
{
    *stream = (lsi_text_stream){0};
    if (make_room(stream, 0))
        stream->file =
            fopencookie(stream, "w", (cookie_io_functions_t){.write = append});
    if (stream->file != NULL)
        return LS_OK;
    free(stream->text);
    return no_memory(stream);
}

ls_status lsi_text_stream_close(lsi_text_stream *stream, ls_status status,
                                char **out)
{
    const bool failed = ferror(stream->file) != 0;
    if ((fclose(stream->file) != 0 || failed || stream->full) &&
        status == LS_OK)
        status = no_memory(stream);
    if (status != LS_OK) {
        free(stream->text);
        return status;
    }
    stream->text[stream->bytes] = '\0';
    *out = stream->text;
    return LS_OK;
}

/*
 * Where the records of an event file end that a run goes on with. The first
 * byte is the step; if it is odd the rest is a file, else events, each behind
 * a byte with its length, of which good records are made.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "report/event_record.h"

enum { MOST = 1 << 16 };

/* The kept part is a whole number of records, and the same when read again. */
static void check(const void *data, size_t size, int64_t step)
{
    int64_t bytes = 0, scalars = 0, again = 0, same = 0;
    lsi_event_place place = {.step = step};
    FILE *file = size > 0 ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
    if (file == NULL)
        return;
    const bool known =
        fuzz_ok(lsi_events_until(file, &place, &bytes, &scalars));
    fclose(file);
    if (!known)
        return;
    fuzz_demand(bytes > 0 && (size_t)bytes <= size && scalars >= 0);
    file = fmemopen((void *)(uintptr_t)data, (size_t)bytes, "r");
    place = (lsi_event_place){.step = step};
    fuzz_demand(fuzz_ok(lsi_events_until(file, &place, &again, &same)));
    fuzz_demand(again == bytes && same == scalars);
    fclose(file);
}

/* The next event, of at most 255 bytes, as a record. */
static size_t make_record(fuzz_input *in, unsigned char *out)
{
    size_t bytes = fuzz_byte(in);
    bytes = bytes < in->size ? bytes : in->size;
    memcpy(out + LSI_EVENT_HEAD, in->data, bytes);
    in->data += bytes;
    in->size -= bytes;
    return lsi_event_put_frame(out, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char records[MOST];
    fuzz_input in = {data, size};
    const int64_t step = fuzz_byte(&in);
    if (step % 2 == 1) {
        check(in.data, in.size, step);
        return 0;
    }
    size_t used = lsi_event_put_version(records, 1);
    while (in.size > 0 && used + LSI_EVENT_MOST <= MOST)
        used += make_record(&in, records + used);
    check(records, used, step);
    return 0;
}

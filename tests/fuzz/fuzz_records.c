/*
 * The records that `lockstep doctor` reads: JSON texts with zeros between them,
 * of which those of one group are compared.
 */
#include <string.h>

#include "fuzz.h"
#include "report/diagnosis.h"

enum { MOST = 4 };

static void check(const lsi_diagnosis *d)
{
    fuzz_demand(d->n_findings >= 0 && d->n_findings <= LSI_FINDINGS);
    for (int i = 0; i < d->n_findings; i++) {
        fuzz_demand(memchr(d->finding[i].text, '\0', LSI_FINDING_BYTES));
        fuzz_demand(d->finding[i].text[0] != '\0');
    }
    for (int r = 0; r < d->size; r++)
        fuzz_demand(d->timed == 0 || d->behind_us[r] >= 0);
}

static bool same_group(const lsi_trace *a, const lsi_trace *b)
{
    return strcmp(a->job, b->job) == 0 && a->group == b->group &&
           a->size == b->size;
}

/* One more of the group, or nothing. */
static size_t add(const uint8_t *data, size_t size, lsi_trace **traces,
                  size_t n)
{
    json_t *json = json_loadb((const char *)data, size, 0, NULL);
    if (json == NULL || !fuzz_ok(lsi_trace_of_json(json, "x", &traces[n])))
        return n;
    if (n == 0 || same_group(traces[n], traces[0]))
        return n + 1;
    lsi_trace_free(&traces[n]);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static lsi_diagnosis diagnosis;
    lsi_trace *traces[MOST];
    size_t n = 0;
    while (size > 0 && n < MOST) {
        const uint8_t *end = memchr(data, '\0', size);
        const size_t bytes = end == NULL ? size : (size_t)(end - data);
        n = add(data, bytes, traces, n);
        data += bytes + (end != NULL);
        size -= bytes + (end != NULL);
    }
    if (n > 0) {
        lsi_diagnose((const lsi_trace *const *)traces, n, 1.0, &diagnosis);
        check(&diagnosis);
    }
    for (size_t i = 0; i < n; i++)
        lsi_trace_free(&traces[i]);
    return 0;
}

/*
 * Reading the files that ranks write. They are checked like any input: a file
 * that was cut off, or has other contents, is an error with the file's name.
 */
#include "report/trace.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

/*
 * Most bytes of a file; for 1024 ranks with all their operations it has 2 MB.
 */
enum { MOST_BYTES = 64 << 20 };

/* ---- lists --------------------------------------------------------------- */

static ls_status allocate(void **out, size_t n, size_t bytes)
{
    return lsi_alloc_zeroed(out, n * bytes, LS_MEMORY_OTHER,
                            "a record of operations");
}

/* Reports an error that jansson does not check. */
static ls_status wrong(json_error_t *error, const char *text)
{
    snprintf(error->text, sizeof(error->text), "%s", text);
    return LS_ERR_FORMAT;
}

/* Limited so that the sum of two such numbers, plus one, does not overflow. */
static bool is_possible(int64_t number)
{
    return number >= 0 && number < LSI_TRACE_NUMBERS;
}

static int read_call(json_t *from, lsi_trace_call *to, json_error_t *error)
{
    json_int_t sequence, count, root, began = 0, ended = 0;
    const char *error_of_group = NULL;
    const int failed = json_unpack_ex(
        from, error, 0,
        "{s:I, s:s, s:s, s:I, s:s, s:s, s:I, s:s, s?I, s?I, s?i, s?s}",
        "sequence", &sequence, "call", &to->call, "operation", &to->operation,
        "count", &count, "dtype", &to->dtype, "redop", &to->redop, "root",
        &root, "status", &to->status, "began_ns", &began, "ended_ns", &ended,
        "peer", &to->peer, "error", &error_of_group);
    to->sequence = sequence;
    to->count = count;
    to->root = root;
    to->began_ns = began;
    to->ended_ns = ended;
    to->refused = failed == 0 && strcmp(to->status, "failed") == 0 &&
                  error_of_group == NULL;
    return failed;
}

static ls_status read_calls(const json_t *list, lsi_trace_calls *out,
                            json_error_t *error)
{
    void *block = NULL;
    if (!json_is_array(list))
        return wrong(error, "the operations are not a list");
    LS_TRY(allocate(&block, json_array_size(list), sizeof(lsi_trace_call)));
    out->call = block;
    int64_t before = 0;
    for (; out->n < json_array_size(list); out->n++) {
        lsi_trace_call *call = &out->call[out->n];
        if (read_call(json_array_get(list, out->n), call, error) != 0)
            return LS_ERR_FORMAT;
        if (call->sequence <= before)
            return wrong(error, "the operations are not in order");
        if (!is_possible(call->sequence) || !is_possible(call->began_ns))
            return wrong(error, "the number of an operation is out of range");
        before = call->sequence;
    }
    return LS_OK;
}

static int read_rank(json_t *from, int size, lsi_trace_rank *to,
                     json_error_t *error)
{
    json_int_t completed = 0, arrived = 0, waits_for = -1;
    to->host = "unknown";
    const int failed = json_unpack_ex(
        from, error, 0, "{s:s, s?s, s?i, s?I, s?I, s?I}", "presence",
        &to->presence, "host", &to->host, "pid", &to->pid, "completed",
        &completed, "arrived", &arrived, "waits_for", &waits_for);
    to->completed = completed;
    to->arrived = arrived;
    to->waits_for = waits_for < 0 || waits_for >= size ? 0 : (int)waits_for + 1;
    return failed;
}

static ls_status read_ranks(const json_t *list, lsi_trace *trace,
                            json_error_t *error)
{
    void *block = NULL;
    if (json_array_size(list) != (size_t)trace->size)
        return wrong(error, "it does not list all ranks");
    LS_TRY(allocate(&block, json_array_size(list), sizeof(lsi_trace_rank)));
    trace->ranks = block;
    for (size_t r = 0; r < json_array_size(list); r++)
        if (read_rank(json_array_get(list, r), trace->size, &trace->ranks[r],
                      error) != 0)
            return LS_ERR_FORMAT;
    return LS_OK;
}

/* ---- the failure --------------------------------------------------------- */

static int read_side(json_t *from, lsi_trace_side *to, json_error_t *error)
{
    return json_unpack_ex(from, error, 0, "{s:i, s:s}", "rank", &to->rank,
                          "call", &to->call);
}

static ls_status read_failure(json_t *from, lsi_trace_failure *to,
                              json_error_t *error)
{
    json_int_t sequence;
    json_t *sides = NULL;
    if (json_is_null(from))
        return LS_OK;
    if (json_unpack_ex(from, error, 0, "{s:s, s:I, s?i, s?s, s?o}", "kind",
                       &to->kind, "sequence", &sequence, "rank", &to->rank,
                       "field", &to->field, "sides", &sides) != 0)
        return LS_ERR_FORMAT;
    to->sequence = sequence;
    const bool mismatch = strcmp(to->kind, "LS_ERR_MISMATCH") == 0;
    if (mismatch && (sides == NULL || to->field == NULL))
        return wrong(
            error,
            "it describes a mismatch without the calls of the two ranks");
    if (mismatch &&
        (read_side(json_array_get(sides, 0), &to->side[0], error) != 0 ||
         read_side(json_array_get(sides, 1), &to->side[1], error) != 0))
        return LS_ERR_FORMAT;
    return LS_OK;
}

/* ---- the file ------------------------------------------------------------ */

static bool is_sound(const lsi_trace *trace)
{
    return is_possible(trace->written_ns) && is_possible(trace->wall_ns) &&
           trace->size >= 1 && trace->size <= LSI_TRACE_MOST_RANKS &&
           trace->rank >= 0 && trace->rank < trace->size &&
           trace->failure.rank >= 0 && trace->failure.rank < trace->size;
}

static ls_status read_all(lsi_trace *trace, json_error_t *error)
{
    json_t *failure, *ranks, *collectives, *messages;
    json_int_t group, written, wall, completed;
    if (json_unpack_ex(trace->json, error, 0,
                       "{s:s, s:I, s:i, s:i, s:i, s:s, s:s, s?s, s?s, s:I, "
                       "s:I, s:I, s:o, s:o, s:o, s:o}",
                       "job", &trace->job, "group", &group, "rank",
                       &trace->rank, "size", &trace->size, "pid", &trace->pid,
                       "host", &trace->host, "reason", &trace->reason, "isa",
                       &trace->isa, "bits", &trace->bits, "written_ns",
                       &written, "wall_ns", &wall, "completed", &completed,
                       "failure", &failure, "ranks", &ranks, "collectives",
                       &collectives, "messages", &messages) != 0)
        return LS_ERR_FORMAT;
    trace->group = group;
    trace->written_ns = written;
    trace->wall_ns = wall;
    trace->completed = completed;
    LS_TRY(read_failure(failure, &trace->failure, error));
    if (!is_sound(trace))
        return wrong(error, "a rank or a time is out of range");
    LS_TRY(read_ranks(ranks, trace, error));
    LS_TRY(read_calls(collectives, &trace->collectives, error));
    return read_calls(messages, &trace->messages, error);
}

static ls_status load(const char *path, json_t **out)
{
    json_error_t error;
    char *text;
    size_t bytes;
    LS_TRY(lsi_read_regular(path, MOST_BYTES, &text, &bytes));
    const ls_status status = lsi_json_loadb(text, bytes, 0, out, &error);
    lsi_free(text);
    if (status != LS_ERR_FORMAT)
        return status;
    return lsi_fail(LS_ERR_FORMAT, "'%s' is not valid JSON: line %d: %s", path,
                    error.line, error.text);
}

static ls_status check_version(json_t *json, const char *path)
{
    json_int_t version = 0;
    if (json_unpack(json, "{s:I}", "lockstep_record", &version) == 0 &&
        version == LSI_TRACE_VERSION)
        return LS_OK;
    if (version != 0)
        return lsi_fail(
            LS_ERR_FORMAT,
            "'%s' is a record of version %d; this program reads version %d",
            path, (int)version, LSI_TRACE_VERSION);
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is not a record of a rank; LOCKSTEP_RECORD and "
                    "ls_group_dump write such files",
                    path);
}

ls_status lsi_trace_read(const char *path, lsi_trace **out)
{
    json_t *json = NULL;
    LS_TRY(load(path, &json));
    return lsi_trace_of_json(json, path, out);
}

ls_status lsi_trace_of_json(json_t *json, const char *path, lsi_trace **out)
{
    void *block = NULL;
    json_error_t error;
    ls_status status = allocate(&block, 1, sizeof(lsi_trace));
    if (status != LS_OK) {
        json_decref(json);
        return status;
    }
    lsi_trace *trace = block;
    trace->json = json;
    status = check_version(json, path);
    if (status == LS_OK) {
        status = read_all(trace, &error);
        if (status == LS_ERR_FORMAT)
            lsi_fail(status, "'%s' is not a valid record: %s", path,
                     error.text);
    }
    if (status != LS_OK) {
        lsi_trace_free(&trace);
        return status;
    }
    *out = trace;
    return LS_OK;
}

void lsi_trace_free(lsi_trace **trace)
{
    if (trace == NULL || *trace == NULL)
        return;
    json_decref((*trace)->json);
    lsi_free((*trace)->ranks);
    lsi_free((*trace)->collectives.call);
    lsi_free((*trace)->messages.call);
    lsi_free(*trace);
    *trace = NULL;
}

#include "comm/recorder.h"

#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/algo/algorithm.h"

/* ---- recording ----------------------------------------------------------- */

static lsi_record *slot(lsi_recorder *recorder, uint64_t number)
{
    return &recorder->records[number % LSI_RECORDS];
}

uint64_t lsi_record_begin(lsi_recorder *recorder, const lsi_op *op)
{
    const uint64_t number = recorder->total++;
    *slot(recorder, number) =
        (lsi_record){.sequence = op->sequence,
                     .call = lsi_fingerprint_of(&op->call),
                     .began_ns = lsi_clock_ns()};
    return number;
}

void lsi_record_end(lsi_recorder *recorder, const lsi_op *op)
{
    lsi_record *record = slot(recorder, op->record);
    if (record->sequence != op->sequence)
        return; /* so long ago that its place has been taken */
    record->ended = true;
    record->algorithm = op->algorithm;
}

void lsi_record_message(lsi_recorder *recorder, const lsi_call *call, int peer)
{
    *slot(recorder, recorder->total++) =
        (lsi_record){.call = lsi_fingerprint_of(call),
                     .began_ns = lsi_clock_ns(),
                     .peer = peer};
}

/* ---- SIGUSR1 ------------------------------------------------------------- */

static volatile sig_atomic_t requests;

static void on_signal(int number)
{
    (void)number;
    requests = (requests + 1) & 0xffff;
}

/* Leaves a handler alone that the program has installed itself. */
static void listen_to_signal(void)
{
    struct sigaction action;
    if (sigaction(SIGUSR1, NULL, &action) != 0 || action.sa_handler != SIG_DFL)
        return;
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGUSR1, &action, NULL);
}

ls_status lsi_recorder_open(lsi_recorder **out)
{
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(lsi_recorder), LS_MEMORY_COMM,
                            "the record of operations"));
    lsi_recorder *recorder = block;
    const char *folder = getenv("LOCKSTEP_RECORD");
    if (folder != NULL && *folder != '\0') {
        recorder->folder = folder;
        recorder->dumped = (unsigned)requests;
        listen_to_signal();
    }
    *out = recorder;
    return LS_OK;
}

/* ---- writing ------------------------------------------------------------- */

static json_t *record_json(const lsi_record *record)
{
    const lsi_call call = lsi_fingerprint_call(record->call);
    json_t *json =
        json_pack("{s:I, s:s, s:I, s:s, s:s, s:I}", "sequence",
                  (json_int_t)record->sequence, "operation",
                  lsi_operation_name(call.operation), "count",
                  (json_int_t)call.count, "dtype", ls_dtype_name(call.dtype),
                  "redop", ls_reduce_op_name(call.redop), "began_ns",
                  (json_int_t)record->began_ns);
    if (json == NULL)
        return NULL;
    if (record->sequence == 0) {
        json_object_set_new(json, "peer", json_integer(record->peer));
        return json;
    }
    json_object_set_new(json, "root", json_integer(call.root));
    json_object_set_new(json, "done", json_boolean(record->ended));
    if (record->algorithm != NULL)
        json_object_set_new(json, "algorithm",
                            json_string(record->algorithm->name));
    return json;
}

/* The oldest first. */
static json_t *records_json(const lsi_recorder *recorder)
{
    json_t *list = json_array();
    const uint64_t first =
        recorder->total > LSI_RECORDS ? recorder->total - LSI_RECORDS : 0;
    for (uint64_t i = first; i < recorder->total; i++)
        json_array_append_new(list,
                              record_json(&recorder->records[i % LSI_RECORDS]));
    return list;
}

static json_t *group_json(const ls_group *group, const char *reason)
{
    const lsi_member *self = lsi_member_of(group, group->rank);
    return json_pack(
        "{s:i, s:i, s:I, s:s, s:i, s:I, s:I, s:s, s:o}", "rank", group->rank,
        "size", group->size, "group", (json_int_t)group->region_offset, "host",
        self->host, "pid", (int)self->pid, "completed",
        (json_int_t)group->completed, "written_ns", (json_int_t)lsi_clock_ns(),
        "reason", reason, "operations", records_json(group->recorder));
}

/* Written beside and renamed, so that a reader never sees half a file. */
void lsi_recorder_dump(const ls_group *group, const char *reason)
{
    char path[4096], beside[4104];
    const char *folder = group->recorder->folder;
    if (folder == NULL)
        return;
    const int length =
        snprintf(path, sizeof(path), "%s/rank-%d-group-%" PRIx64 ".json",
                 folder, group->rank, group->region_offset);
    if (length < 0 || (size_t)length >= sizeof(path))
        return;
    snprintf(beside, sizeof(beside), "%s.part", path);
    json_t *json = group_json(group, reason);
    if (json == NULL || json_dump_file(json, beside, JSON_INDENT(1)) != 0 ||
        rename(beside, path) != 0)
        lsi_log(LSI_LOG_WARN, "cannot write the record of operations to %s",
                path);
    json_decref(json);
}

void lsi_recorder_check_signal(const ls_group *group)
{
    lsi_recorder *recorder = group->recorder;
    if (recorder->folder == NULL || recorder->dumped == (unsigned)requests)
        return;
    recorder->dumped = (unsigned)requests;
    lsi_recorder_dump(group, "SIGUSR1");
}

/* lockstep trace merge: the recordings of all ranks as one timeline. */
#include <stdio.h>

#include "base/error.h"
#include "cli/frame/command.h"
#include "report/folder.h"
#include "report/result.h"
#include "report/timeline.h"

typedef struct args {
    const char *out;
    int64_t attempt;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(out, STRING, "out", 'o', "FILE", NULL,
        "output file for the timeline as JSON (\"-\": stdout; default: "
        "timeline.json in the folder of the traces)"),
    LSI_ATTEMPT_ROW(attempt),
};

static ls_status write(const lsi_timeline *timeline, const char *path)
{
    lsi_result_stream stream;
    LS_TRY(lsi_result_open(&stream, path));
    return lsi_result_close(&stream,
                            lsi_timeline_chrome(timeline, stream.file));
}

static void print_result(const lsi_timeline *timeline, const char *path)
{
    size_t spans = 0;
    for (size_t i = 0; i < timeline->n; i++)
        spans += timeline->process[i]->n;
    lsi_timeline_warn(timeline, stderr);
    fprintf(stderr,
            "wrote %zu spans of %zu process%s to %s; open the file at "
            "https://ui.perfetto.dev or chrome://tracing\n",
            spans, timeline->n, timeline->n == 1 ? "" : "es", path);
}

static ls_status merge_folder(const args *a, const char *folder)
{
    char usual[PATH_MAX + 32];
    lsi_attempts attempts;
    lsi_timeline *timeline = NULL;
    LS_TRY(lsi_find_attempt(folder, ".lstrace", a->attempt, &attempts));
    snprintf(usual, sizeof(usual), "%s/timeline.json", attempts.folder);
    const char *const path = a->out != NULL ? a->out : usual;
    /* Whether the folder is one is for its reader to say. */
    if (a->out != NULL)
        LS_TRY(lsi_result_check(path));
    LS_TRY(lsi_timeline_read(attempts.folder, &timeline));
    const ls_status status = write(timeline, path);
    if (status == LS_OK) {
        lsi_tell_attempt(&attempts);
        print_result(timeline, path);
    }
    lsi_timeline_free(&timeline);
    return status;
}

static int run_trace_merge(const lsi_invocation *call)
{
    args a;
    int exit_status;
    const char *folder;
    if (!lsi_cli_parse_argument(call, &a, &folder, &exit_status))
        return exit_status;
    if (folder == NULL)
        return lsi_cli_usage("give one folder of traces: " LSI_TRACE_FOLDER);
    return merge_folder(&a, folder) == LS_OK ? 0 : lsi_cli_error();
}

static const lsi_command merge_command = {
    .name = "merge",
    .summary = "Merge the traces of all ranks into one timeline",
    .arguments = "DIR",
    .text = "DIR is " LSI_TRACE_FOLDER
            "; traces from other machines may be copied into DIR. The "
            "timeline uses Chrome's trace event format. If the ranks ran on "
            "several machines, their common collectives are used to align the "
            "clocks. The command prints the error of this alignment and also "
            "writes it to the timeline (docs/how-to/profiling.md).",
    LSI_COMMAND_OPTIONS(options),
    .run = run_trace_merge,
};

static const lsi_command *const children[] = {&merge_command};

const lsi_command lsi_command_trace = {
    .name = "trace",
    .summary = "Process traces that --trace recorded",
    LSI_COMMAND_CHILDREN(children),
};

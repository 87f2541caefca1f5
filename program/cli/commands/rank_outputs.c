/* torchrun's -r, -t and --local-ranks-filter; see rank_outputs.h. */
#include "cli/commands/rank_outputs.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/*
 * Reads a number up to `max` at *text, and moves *text past it; -1 without one.
 */
static long parse_number(const char **text, long max)
{
    char *end;
    if (**text < '0' || **text > '9')
        return -1;
    const long value = strtol(*text, &end, 10);
    *text = end;
    return value <= max ? value : -1;
}

static ls_status bad_streams(const char *flag, const char *text)
{
    return lsi_fail(
        LS_ERR_ARGUMENT,
        "%s '%s' is not valid; give 0 (nothing), 1 (stdout), 2 (stderr), 3 "
        "(both), or a list of RANK:STREAMS such as 0:1,1:3",
        flag, text);
}

/* "3" for all ranks, or "0:1,1:2", into streams[ranks]. */
static ls_status read_streams(const char *flag, const char *text, int ranks,
                              unsigned char *streams)
{
    const char *at = text;
    memset(streams, 0, (size_t)ranks);
    if (text == NULL)
        return LS_OK;
    if (strchr(text, ':') == NULL) {
        const long value = parse_number(&at, LSI_STREAMS);
        if (value < 0 || *at != '\0')
            return bad_streams(flag, text);
        memset(streams, (int)value, (size_t)ranks);
        return LS_OK;
    }
    do {
        const long rank = parse_number(&at, ranks - 1);
        const bool colon = rank >= 0 && *at == ':';
        at += colon ? 1 : 0;
        const long value = colon ? parse_number(&at, LSI_STREAMS) : -1;
        if (value < 0)
            return bad_streams(flag, text);
        streams[rank] = (unsigned char)value;
    } while (*at++ == ',');
    return at[-1] == '\0' ? LS_OK : bad_streams(flag, text);
}

/* "0,3": the others show nothing. */
static ls_status filter(const char *text, int ranks, lsi_rank_output *outputs)
{
    bool shown[LSI_LAUNCH_MAX_RANKS] = {false};
    const char *at = text;
    if (text == NULL)
        return LS_OK;
    do {
        const long rank = parse_number(&at, ranks - 1);
        if (rank < 0)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "--local-ranks-filter '%s' is not a list of ranks "
                            "from 0 to %d, such as 0,1",
                            text, ranks - 1);
        shown[rank] = true;
    } while (*at++ == ',');
    if (at[-1] != '\0')
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--local-ranks-filter '%s' is not a list of ranks; "
                        "separate the ranks by commas, such as 0,1",
                        text);
    for (int i = 0; i < ranks; i++)
        outputs[i].console = shown[i] ? outputs[i].console : 0;
    return LS_OK;
}

static ls_status fill(const lsi_output_flags *flags, int ranks,
                      lsi_rank_output *outputs)
{
    unsigned char redirected[LSI_LAUNCH_MAX_RANKS];
    unsigned char teed[LSI_LAUNCH_MAX_RANKS];
    LS_TRY(read_streams("--redirects", flags->redirects, ranks, redirected));
    LS_TRY(read_streams("--tee", flags->tee, ranks, teed));
    for (int i = 0; i < ranks; i++) {
        /* A stream in both flags is shown, as by torchrun. */
        const int hidden = redirected[i] & ~teed[i];
        outputs[i].console = (unsigned char)(LSI_STREAMS & ~hidden);
        outputs[i].tagged = flags->tagged ? LSI_STREAMS : teed[i];
    }
    return filter(flags->filter, ranks, outputs);
}

static ls_status check(const lsi_output_flags *flags)
{
    const char *needs_logs = flags->redirects != NULL ? "--redirects"
                             : flags->tee != NULL     ? "--tee"
                             : flags->log_size != 0   ? "--log-size"
                             : flags->log_files != 0  ? "--log-files"
                                                      : NULL;
    const char *shows = flags->tagged              ? "--tag-output"
                        : flags->redirects != NULL ? "--redirects"
                        : flags->tee != NULL       ? "--tee"
                        : flags->filter != NULL    ? "--local-ranks-filter"
                                                   : NULL;
    const bool rank0 = strcmp(flags->console, "rank0") == 0;
    if (rank0 && shows != NULL)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "--console rank0 already sets the output to show; leave out %s",
            shows);
    if (needs_logs != NULL && flags->log_folder == NULL)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "%s needs log files: give a folder for them with --log-dir DIR. To "
            "mark each line with its rank, --tag-output is enough",
            needs_logs);
    return LS_OK;
}

/*
 * Rank 0 keeps the standard output itself, with a terminal's colours and
 * progress bars, unless it is to be in files. Its standard error passes through
 * the launcher, which quotes it at the end.
 */
static void fill_rank0(bool logged, int ranks, lsi_rank_output *outputs)
{
    outputs[0].console = LSI_STREAMS;
    outputs[0].passed = logged ? LSI_STREAMS : LSI_STREAM_ERR;
    for (int i = 1; i < ranks; i++) {
        outputs[i].console = LSI_STREAM_ERR;
        outputs[i].folded = LSI_STREAM_ERR;
    }
}

ls_status lsi_rank_outputs_read(const lsi_output_flags *flags, int ranks,
                                lsi_launch_output *wanted,
                                lsi_rank_output **out)
{
    *out = NULL;
    LS_TRY(check(flags));
    wanted->folds = strcmp(flags->console, "rank0") == 0;
    wanted->log_folder = flags->log_folder;
    wanted->report = flags->report;
    wanted->rotation.keep = (int)flags->log_files;
    wanted->rotation.limit = (uint64_t)flags->log_size;
    if (!flags->tagged && flags->redirects == NULL && flags->tee == NULL &&
        flags->filter == NULL && !wanted->folds)
        return LS_OK;
    lsi_rank_output *const outputs = calloc((size_t)ranks, sizeof(*outputs));
    if (outputs == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for %d ranks", ranks);
    ls_status status = LS_OK;
    if (wanted->folds)
        fill_rank0(flags->log_folder != NULL, ranks, outputs);
    else
        status = fill(flags, ranks, outputs);
    if (status == LS_OK)
        wanted->of_ranks = *out = outputs;
    else
        free(outputs);
    return status;
}

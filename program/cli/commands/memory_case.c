#include "cli/commands/memory_case.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "array/compute/threads.h"
#include "base/cpus.h"
#include "base/error.h"
#include "base/meminfo.h"
#include "cli/bench/bench.h"

/* The outcome that the process sends at its end. */
typedef struct words {
    ls_status status;
    int64_t peak, resident, files;
    char message[1024];
} words;

/* ---- in the child process ------------------------------------------------ */

static ls_status run_steps(const lsi_memory_case *c, lsi_lm_case *lm)
{
    double unused[LSI_LM_PHASES];
    LS_TRY(lsi_lm_case_new(lm));
    for (int64_t i = 0; i < c->steps; i++)
        LS_TRY(lsi_lm_case_step(lm, unused));
    return LS_OK;
}

static ls_status run_recorded(const lsi_memory_case *c, const char *path,
                              words *w)
{
    ls_memory_stats before, after;
    lsi_lm_case lm = c->lm;
    lsi_threads_set(c->threads > 0 ? (int)c->threads : lsi_cpus_available());
    lsi_bench_set_budget(c->budget);
    LS_TRY(ls_memory_record_start(path));
    const bool known = lsi_memory_reset_resident_peak();
    const int64_t resident = lsi_memory_resident();
    const int64_t files = lsi_memory_resident_files();
    ls_memory_total(&before);
    ls_memory_reset_peak();
    const ls_status status = run_steps(c, &lm);
    ls_memory_total(&after);
    w->peak = (int64_t)(after.peak_bytes - before.live_bytes);
    w->files = lsi_memory_resident_files() - files;
    w->resident = known ? lsi_memory_resident_peak() - resident - w->files : -1;
    snprintf(w->message, sizeof(w->message), "%s",
             status == LS_OK ? "" : ls_last_error());
    lsi_lm_case_free(&lm);
    if (status != LS_OK) {
        ls_ignore(ls_memory_record_stop());
        return status;
    }
    return ls_memory_record_stop();
}

static _Noreturn void run_child(const lsi_memory_case *c, const char *path,
                                int to)
{
    static words w;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    w.status = run_recorded(c, path, &w);
    if (w.status != LS_OK && w.message[0] == '\0')
        snprintf(w.message, sizeof(w.message), "%s", ls_last_error());
    const bool sent = write(to, &w, sizeof(w)) == (ssize_t)sizeof(w);
    _exit(sent ? 0 : 1);
}

/* ---- in the calling process ---------------------------------------------- */

static bool read_words(int from, words *w)
{
    char *const at = (char *)w;
    size_t n = 0;
    while (n < sizeof(*w)) {
        const ssize_t more = read(from, at + n, sizeof(*w) - n);
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            return false;
        n += (size_t)more;
    }
    return true;
}

static void await(pid_t child, bool received, words *w)
{
    int how = 0;
    while (waitpid(child, &how, 0) < 0 && errno == EINTR) {
    }
    if (received)
        return;
    w->status = LS_ERR_MEMORY;
    if (WIFSIGNALED(how))
        snprintf(w->message, sizeof(w->message),
                 "the process that ran the model was killed by signal %d",
                 WTERMSIG(how));
    else
        snprintf(w->message, sizeof(w->message),
                 "the process that ran the model ended with exit status %d",
                 WEXITSTATUS(how));
}

static ls_status run_process(const lsi_memory_case *c, const char *path,
                             words *w)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot start a process for the model");
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        run_child(c, path, ends[1]);
    close(ends[1]);
    const bool received = child > 0 && read_words(ends[0], w);
    close(ends[0]);
    if (child < 0)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot start a process for the model");
    await(child, received, w);
    return LS_OK;
}

/* The recording is in memory, and nothing of it is left afterwards. */
ls_status lsi_memory_case_run(const lsi_memory_case *c, lsi_memory_outcome *out)
{
    static words w;
    char path[40];
    const int fd = memfd_create("lockstep-memory", MFD_CLOEXEC);
    if (fd < 0)
        return lsi_fail_errno(
            LS_ERR_SYSTEM,
            "cannot create a file in memory for the recording of a model");
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    w = (words){.status = LS_OK};
    *out = (lsi_memory_outcome){.status = LS_OK};
    ls_status status = run_process(c, path, &w);
    out->status = w.status;
    out->peak = w.peak;
    out->resident = w.resident;
    out->files = w.files;
    snprintf(out->message, sizeof(out->message), "%s", w.message);
    if (status == LS_OK && w.status == LS_OK)
        status = lsi_memory_read(path, &out->file);
    close(fd);
    return status;
}

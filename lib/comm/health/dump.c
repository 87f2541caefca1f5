/*
 * When and where records are written. One lock orders the writers and keeps a
 * group in its place while it is written.
 */
#include "comm/health/dump.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/signal_stack.h"
#include "base/thread.h"

enum { PATH_BYTES = 4096 };

/* ---- one file ------------------------------------------------------------ */

static ls_status write_text(FILE *file, const char *text, const char *path)
{
    const bool written = fputs(text, file) >= 0;
    if (fclose(file) == 0 && written)
        return LS_OK;
    return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path);
}

/* Written to another name and renamed, so a reader never sees half a file. */
static ls_status write_file(const char *path, const char *text)
{
    char beside[PATH_BYTES];
    if (snprintf(beside, sizeof(beside), "%s.part", path) >= PATH_BYTES)
        return lsi_fail(LS_ERR_IO, "cannot write '%s': the path is too long",
                        path);
    LS_TRY(lsi_make_parents(path));
    FILE *file = fopen(beside, "we");
    if (file == NULL)
        return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path);
    ls_status status = write_text(file, text, path);
    if (status == LS_OK && rename(beside, path) != 0)
        status = lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path);
    if (status != LS_OK)
        (void)remove(beside);
    return status;
}

static ls_status write_group(const ls_group *group, const char *path,
                             const char *reason)
{
    char *text = lsi_dump_text(group, reason);
    if (text == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory to write '%s'", path);
    const ls_status status = write_file(path, text);
    free(text);
    return status;
}

/* The name differs between any two groups, even of different jobs. */
static void write_to_folder(const ls_group *group, const char *reason)
{
    char path[PATH_BYTES];
    const int length =
        snprintf(path, sizeof(path),
                 "%s/job-%016" PRIx64 "-group-%" PRIx64 "-rank-%d.json",
                 group->recording.folder, group->identity.job,
                 group->identity.number, group->rank);
    if (length >= PATH_BYTES)
        lsi_log(LS_LOG_WARN,
                "LOCKSTEP_RECORD: the path of the folder is too long");
    else if (write_group(group, path, reason) != LS_OK)
        lsi_log(LS_LOG_WARN, "%s", ls_last_error());
}

/* ---- all groups of this process ------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ls_group *groups;

static void write_all(void)
{
    pthread_mutex_lock(&lock);
    for (const ls_group *group = groups; group != NULL;
         group = group->recording.next)
        write_to_folder(group, "SIGUSR1");
    pthread_mutex_unlock(&lock);
}

void lsi_dump_failure(const ls_group *group, const char *reason)
{
    char text[1024]; /* what is written may fail in turn */
    snprintf(text, sizeof(text), "%s", reason);
    pthread_mutex_lock(&lock);
    if (group->recording.folder !=
        NULL) /* another thread may close the group */
        write_to_folder(group, text);
    pthread_mutex_unlock(&lock);
}

ls_status ls_group_dump(ls_group *group, const char *path)
{
    LS_NEED(group, path);
    pthread_mutex_lock(&lock);
    const ls_status status = write_group(group, path, "ls_group_dump");
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- SIGUSR1 ------------------------------------------------------------- */

static sem_t asked;
static bool listening;          /* for the life of the process */
static struct sigaction before; /* what was done about it */

static void on_signal(int number)
{
    const int saved = errno;
    (void)number;
    (void)sem_post(&asked);
    errno = saved;
}

static void *watch(void *unused)
{
    (void)unused;
    for (;;)
        if (sem_wait(&asked) == 0)
            write_all();
    return NULL;
}

/* A child has neither the thread nor a place in the groups. */
static void in_child(void)
{
    struct sigaction action;
    groups = NULL;
    listening = false;
    if (sigaction(SIGUSR1, NULL, &action) == 0 &&
        action.sa_handler == on_signal)
        (void)sigaction(SIGUSR1, &before, NULL);
}

static lsi_fork_guard fork_guard = {.lock = &lock, .in_child = in_child};

static void listen_to_signal(void)
{
    struct sigaction action;
    if (sigaction(SIGUSR1, NULL, &before) != 0 ||
        (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN))
        return;
    if (sem_init(&asked, 0, 0) != 0 || !lsi_thread_watch(watch, NULL)) {
        lsi_log(LS_LOG_WARN, "SIGUSR1 will not write records: cannot start the "
                             "thread that writes them");
        return;
    }
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    lsi_use_signal_stack();
    sigemptyset(&action.sa_mask);
    listening = sigaction(SIGUSR1, &action, NULL) == 0;
}

/* ---- joining and leaving ------------------------------------------------- */

void lsi_dump_join(ls_group *group)
{
    const char *folder = getenv("LOCKSTEP_RECORD");
    if (folder == NULL || *folder == '\0')
        return;
    group->recording.folder = folder;
    if (!lsi_make_folders(folder))
        lsi_log(LS_LOG_WARN,
                "LOCKSTEP_RECORD: cannot create the folder '%s': %s", folder,
                strerror(errno));
    else if (access(folder, W_OK | X_OK) != 0)
        lsi_log(LS_LOG_WARN,
                "LOCKSTEP_RECORD: cannot write to the folder '%s': %s", folder,
                strerror(errno));
    lsi_guard_forks(&fork_guard);
    pthread_mutex_lock(&lock);
    group->recording.next = groups;
    groups = group;
    if (!listening)
        listen_to_signal();
    pthread_mutex_unlock(&lock);
}

void lsi_dump_leave(ls_group *group)
{
    pthread_mutex_lock(&lock);
    ls_group **link = &groups;
    while (*link != NULL && *link != group)
        link = &(*link)->recording.next;
    if (*link != NULL)
        *link = group->recording.next;
    group->recording.folder = NULL;
    pthread_mutex_unlock(&lock);
}

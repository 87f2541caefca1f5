#include "model/checkpoint/lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/fork.h"
#include "base/log.h"
#include "model/checkpoint/cache.h"
#include "model/checkpoint/folder.h"

/* ---- forks --------------------------------------------------------------- */

/*
 * A child shares its parent's open files, and with them the lock, which would
 * then outlive the parent. So the child closes them at once.
 */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static lsi_folder_lock *locks;

static void in_child(void)
{
    for (lsi_folder_lock *lock = locks; lock != NULL; lock = lock->next) {
        close(lock->fd);
        lock->held = false;
    }
    locks = NULL;
}

static lsi_fork_guard fork_guard = {.lock = &mutex, .in_child = in_child};

static void strike_off(lsi_folder_lock *lock)
{
    pthread_mutex_lock(&mutex);
    lsi_folder_lock **link = &locks;
    while (*link != NULL && *link != lock)
        link = &(*link)->next;
    if (*link != NULL)
        *link = lock->next;
    pthread_mutex_unlock(&mutex);
}

/* ---- the holder ---------------------------------------------------------- */

enum { NAME_BYTES = 256 };

/*
 * Writes the holder for the messages of later processes; a failure does no
 * harm.
 */
static void write_holder(int fd)
{
    char host[64] = "?", text[NAME_BYTES];
    (void)gethostname(host, sizeof(host) - 1);
    const int length = snprintf(text, sizeof text, "process %ld on host %s",
                                (long)getpid(), host);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)length, 0) < 0)
        lsi_log(
            LS_LOG_DEBUG,
            "cannot write this process's name to the lock file of a folder");
}

static void read_holder(int fd, char text[NAME_BYTES])
{
    ssize_t length = pread(fd, text, NAME_BYTES - 1, 0);
    if (length <= 0)
        length = snprintf(text, NAME_BYTES, "an unknown process");
    text[length] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

static ls_status refuse(int fd, const char *folder)
{
    char holder[NAME_BYTES];
    read_holder(fd, holder);
    return lsi_fail(
        LS_ERR_STATE,
        "%s is writing to '%s'; wait until it ends, or choose another folder",
        holder, folder);
}

/* ---- taking -------------------------------------------------------------- */

/*
 * Another process may have removed the file, or the folder, and made a new one.
 */
static bool is_still(int fd, const char *path)
{
    struct stat open_file, named;
    return fstat(fd, &open_file) == 0 && lstat(path, &named) == 0 &&
           open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

static ls_status open_file(const char *path, int *fd)
{
    struct stat info;
    *fd = open(
        path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
        0666);
    if (*fd < 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot open the lock file '%s'",
                              path);
    ls_status status = LS_OK;
    if (fstat(*fd, &info) != 0)
        status = lsi_fail_errno(LS_ERR_IO, "cannot examine the lock file '%s'",
                                path);
    else if (!S_ISREG(info.st_mode))
        status = lsi_fail(LS_ERR_IO, "the lock file '%s' is not a regular file",
                          path);
    if (status != LS_OK)
        close(*fd);
    return status;
}

static void warn_of_no_locks(const char *folder)
{
    char kind[sizeof(lsi_path) + 16];
    snprintf(kind, sizeof kind, "no locks: %s", folder);
    if (lsi_checkpoint_cache_is_first(kind))
        lsi_log(LS_LOG_WARN,
                "the file system of '%s' does not support locks: make sure "
                "that no other run "
                "writes there",
                folder);
}

/* Atomic with respect to fork, whose child would not know of the open file. */
static ls_status try_lock(lsi_folder_lock *lock, const char *path, int *fd,
                          lsi_file_lock *got)
{
    lsi_guard_forks(&fork_guard);
    pthread_mutex_lock(&mutex);
    const ls_status status = open_file(path, fd);
    if (status == LS_OK)
        *got = lsi_lock_file(*fd);
    if (status == LS_OK && *got != LSI_FILE_IS_LOCKED) {
        *lock = (lsi_folder_lock){true, *got == LSI_FILE_LOCKED, *fd, locks};
        locks = lock;
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

/*
 * A holder that was just killed keeps the lock until its last system call
 * returns. A new holder may not have written its name yet.
 */
static ls_status acquire_lock(lsi_folder_lock *lock, const char *path,
                              const char *folder)
{
    enum { TRIES = 100 };
    const struct timespec moment = {.tv_nsec = 10000000};
    int fd;
    lsi_file_lock got;
    LS_TRY(try_lock(lock, path, &fd, &got));
    for (int i = 0; i < TRIES && got == LSI_FILE_IS_LOCKED; i++) {
        close(fd);
        nanosleep(&moment, NULL);
        LS_TRY(try_lock(lock, path, &fd, &got));
    }
    if (got == LSI_FILE_IS_LOCKED) {
        const ls_status status = refuse(fd, folder);
        close(fd);
        return status;
    }
    if (got == LSI_FILE_NO_LOCKS)
        warn_of_no_locks(folder);
    write_holder(fd);
    return LS_OK;
}

ls_status lsi_folder_lock_acquire(lsi_folder_lock *lock, const char *folder,
                                  const char *name)
{
    enum { TRIES = 10 };
    const lsi_path path = lsi_path_in(folder, name);
    for (int i = 0; i < TRIES; i++) {
        if (lock->held && is_still(lock->fd, path.text))
            return LS_OK;
        lsi_folder_lock_drop(lock);
        LS_TRY(acquire_lock(lock, path.text, folder));
    }
    return lsi_fail(LS_ERR_IO,
                    "cannot lock '%s': another process keeps removing the file",
                    path.text);
}

void lsi_folder_lock_drop(lsi_folder_lock *lock)
{
    if (!lock->held)
        return;
    strike_off(lock);
    if (ftruncate(lock->fd, 0) != 0)
        lsi_log(
            LS_LOG_DEBUG,
            "cannot remove this process's name from the lock file of a folder");
    (void)flock(lock->fd, LOCK_UN); /* even if others have the file open */
    close(lock->fd);
    *lock = (lsi_folder_lock){0};
}

/*
 * Removes the file before the release: the next holder finds that it is gone.
 */
void lsi_folder_lock_remove(lsi_folder_lock *lock, const char *folder,
                            const char *name)
{
    const lsi_path path = lsi_path_in(folder, name);
    if (lock->held && is_still(lock->fd, path.text))
        (void)unlink(path.text);
    lsi_folder_lock_drop(lock);
}

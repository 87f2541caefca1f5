/*
 * Files that appear all at once: who may read them, where links lead, and what
 * writers that were killed have left.
 */
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "testing.h"

static char folder[] = "/tmp/lockstep-atomic-XXXXXX";
static char path[sizeof folder + 32];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/model", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

/* How many names there are; *temporaries of these are of files in the making.
 */
static int count_names(int *temporaries)
{
    int n = 0;
    *temporaries = 0;
    DIR *const entries = opendir(folder);
    assert_non_null(entries);
    for (const struct dirent *e; (e = readdir(entries)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        n++;
        *temporaries += lsi_temporary_end(e->d_name) != NULL;
    }
    closedir(entries);
    return n;
}

static ls_status write_to(const char *name, const char *text)
{
    lsi_atomic_file file;
    LS_TRY(lsi_atomic_file_open(&file, name));
    const ls_status status = lsi_atomic_file_write(&file, text, strlen(text));
    if (status == LS_OK)
        return lsi_atomic_file_commit(&file);
    lsi_atomic_file_abandon(&file);
    return status;
}

static struct stat look(const char *name)
{
    struct stat info;
    assert_int_equal(lstat(name, &info), 0);
    return info;
}

/* ---- access -------------------------------------------------------------- */

static void the_mode_stays(void **state)
{
    (void)state;
    const mode_t modes[] = {0600, 0640, 0444, 0666};
    const mode_t mask = umask(027);
    assert_ok(write_to(path, "new"));
    assert_int_equal(look(path).st_mode & 07777, 0640);
    for (size_t i = 0; i < TEST_COUNT(modes); i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_ok(write_to(path, "newer"));
        assert_int_equal(look(path).st_mode & 07777, modes[i]);
    }
    umask(mask);
    unlink(path);
}

/* While it is written, too, nobody reads it who could not read the old one. */
static void nobody_looks_on(void **state)
{
    (void)state;
    lsi_atomic_file file;
    assert_ok(write_to(path, "old"));
    assert_int_equal(chmod(path, 0600), 0);
    assert_ok(lsi_atomic_file_open(&file, path));
    assert_int_equal(look(file.temporary).st_mode & 0077, 0);
    lsi_atomic_file_abandon(&file);
    unlink(path);
}

static void root_gives_it_back_to_its_owner(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_ok(write_to(path, "old"));
    assert_int_equal(chown(path, 12345, 23456), 0);
    assert_int_equal(chmod(path, 0640), 0);
    assert_ok(write_to(path, "new"));
    const struct stat info = look(path);
    assert_true(info.st_uid == 12345 && info.st_gid == 23456);
    assert_int_equal(info.st_mode & 07777, 0640);
    unlink(path);
}

/* A user outside the file's group must not give the group's rights to another.
 */
static void another_group_gets_no_rights(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_ok(write_to(path, "old"));
    assert_int_equal(chown(path, 12345, 23456), 0);
    assert_int_equal(chmod(path, 0664), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    const pid_t child = fork();
    if (child == 0) {
        const bool plain =
            setgroups(0, NULL) == 0 && setgid(34567) == 0 && setuid(12345) == 0;
        _exit(plain && write_to(path, "new") == LS_OK ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    const struct stat info = look(path);
    assert_true(info.st_uid == 12345 && info.st_gid == 34567);
    assert_int_equal(info.st_mode & 07777, 0644);
    unlink(path);
}

/* ---- links --------------------------------------------------------------- */

static void a_link_to_nothing_stays_one(void **state)
{
    (void)state;
    char link[sizeof path + 8];
    snprintf(link, sizeof link, "%s.link", path);
    assert_int_equal(symlink("model", link), 0);
    assert_ok(write_to(link, "new"));
    assert_true(S_ISLNK(look(link).st_mode));
    assert_true(S_ISREG(look(path).st_mode));
    unlink(link);
    unlink(path);
}

/* ---- other names --------------------------------------------------------- */

static void names_are_known(void **state)
{
    (void)state;
    const char *const good = "a.tmp-0123456789abcdef";
    const char *const bad[] = {"",
                               "a",
                               ".tmp-0123456789abcdef",
                               "a.tmp-0123456789abcde",
                               "a.tmp-0123456789abcdefa",
                               "a.tmp-0123456789ABCDEF",
                               "a.tmp_0123456789abcdef",
                               "a.tmp-1234-0"};
    assert_ptr_equal(lsi_temporary_end(good), good + 1);
    for (size_t i = 0; i < TEST_COUNT(bad); i++)
        assert_null(lsi_temporary_end(bad[i]));
}

/* A process that writes and neither ends nor abandons what it writes. */
static pid_t start_writer(void)
{
    int ends[2];
    char byte = 'n';
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        lsi_atomic_file file;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (lsi_atomic_file_open(&file, path) == LS_OK &&
            lsi_atomic_file_write(&file, "half", 4) == LS_OK)
            byte = 'y';
        (void)!write(ends[1], &byte, 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    close(ends[0]);
    close(ends[1]);
    return child;
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void only_what_the_dead_left_is_swept(void **state)
{
    (void)state;
    int temporaries;
    char foreign[2][sizeof path + 32];
    snprintf(foreign[0], sizeof foreign[0], "%s.tmp-9-0", path);
    snprintf(foreign[1], sizeof foreign[1], "%s2.tmp-0123456789abcdef", path);
    for (int i = 0; i < 2; i++)
        assert_int_equal(close(creat(foreign[i], 0600)), 0);
    const pid_t first = start_writer();
    const pid_t second = start_writer();
    assert_int_equal(count_names(&temporaries), 4);
    end(first);
    /* Of the two writers' only that of the dead one goes. */
    assert_ok(write_to(path, "whole"));
    assert_int_equal(count_names(&temporaries), 4);
    assert_int_equal(temporaries, 2);
    end(second);
    assert_ok(write_to(path, "whole"));
    assert_int_equal(count_names(&temporaries), 3);
    assert_int_equal(temporaries, 1);
    unlink(foreign[0]);
    unlink(foreign[1]);
    unlink(path);
}

/* ---- process ids that repeat --------------------------------------------- */

enum { NOT_ALLOWED = 77 };

typedef struct talk {
    int said[2], until[2];
} talk;

static int say(const talk *t, int result)
{
    const char byte = 0;
    return write(t->said[1], &byte, 1) == 1 ? result : 1;
}

/* As process 1 of a container, until the parent has heard of both. */
static int be_first(const talk *t)
{
    char byte;
    lsi_atomic_file file;
    if (getpid() != 1 || lsi_atomic_file_open(&file, path) != LS_OK)
        return say(t, 1);
    const int result = say(t, 0);
    (void)!read(t->until[0], &byte, 1);
    lsi_atomic_file_abandon(&file);
    return result;
}

/*
 * Containers have a /dev/shm each. LLVM's OpenMP registers itself there under
 * the process id after a fork, and ends the second process 1 that shares it.
 */
static void hold_own_shared_memory(void)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
        (void)mount("none", "/dev/shm", "tmpfs", 0, NULL);
}

static pid_t start_container(const talk *t)
{
    const int users = geteuid() == 0 ? 0 : CLONE_NEWUSER;
    int status = 1;
    pid_t child = fork();
    if (child != 0)
        return child;
    close(t->until[1]);
    if (unshare(CLONE_NEWPID | CLONE_NEWNS | users) != 0)
        _exit(say(t, NOT_ALLOWED));
    hold_own_shared_memory();
    child = fork();
    if (child == 0)
        _exit(be_first(t));
    if (child < 0 || waitpid(child, &status, 0) != child)
        _exit(say(t, 1));
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* Both are at it at once. */
static void equal_process_ids_are_no_obstacle(void **state)
{
    (void)state;
    talk t;
    char bytes[2];
    bool allowed = true;
    int temporaries;
    pid_t children[2];
    assert_int_equal(pipe(t.said), 0);
    assert_int_equal(pipe(t.until), 0);
    for (int i = 0; i < 2; i++)
        children[i] = start_container(&t);
    close(t.said[1]);
    for (int i = 0; i < 2 && read(t.said[0], bytes, 1) == 1; i++)
        continue;
    close(t.until[1]);
    for (int i = 0; i < 2; i++) {
        int status = 1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        allowed = allowed && WEXITSTATUS(status) != NOT_ALLOWED;
        assert_true(!allowed || WEXITSTATUS(status) == 0);
    }
    close(t.said[0]);
    close(t.until[0]);
    assert_int_equal(count_names(&temporaries), 0);
    if (!allowed) {
        print_message("no pid namespaces can be made here\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mode_stays),
        cmocka_unit_test(nobody_looks_on),
        cmocka_unit_test(root_gives_it_back_to_its_owner),
        cmocka_unit_test(another_group_gets_no_rights),
        cmocka_unit_test(a_link_to_nothing_stays_one),
        cmocka_unit_test(names_are_known),
        cmocka_unit_test(only_what_the_dead_left_is_swept),
        cmocka_unit_test(equal_process_ids_are_no_obstacle),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

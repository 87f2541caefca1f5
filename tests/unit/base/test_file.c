/*
 * Only regular files are read, links are followed to their ends, and locks end
 * with who holds them.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "testing.h"

static char folder[] = "/tmp/lockstep-file-XXXXXX";

typedef struct path {
    char text[100];
} path;

static path in_folder(const char *name)
{
    path p;
    snprintf(p.text, sizeof p.text, "%s/%s", folder, name);
    return p;
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static path write_file(const char *name, const char *text)
{
    const path p = in_folder(name);
    FILE *file = fopen(p.text, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return p;
}

/* ---- reading ------------------------------------------------------------- */

static void refuses(const char *name, ls_status status, const char *what)
{
    int fd;
    uint64_t bytes;
    char *text;
    size_t read_bytes;
    assert_error(lsi_open_regular(name, 10, &fd, &bytes), status, what);
    assert_non_null(strstr(ls_last_error(), name));
    assert_error(lsi_read_regular(name, 10, &text, &read_bytes), status, what);
}

static void regular_files_are_read(void **state)
{
    (void)state;
    const char *const texts[] = {"", "a", "0123456789"};
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        const path p = write_file("file", texts[i]);
        char *text;
        size_t bytes;
        assert_ok(lsi_read_regular(p.text, 10, &text, &bytes));
        assert_int_equal(bytes, strlen(texts[i]));
        assert_string_equal(text, texts[i]);
        lsi_free(text);
        const path link = in_folder("link");
        assert_int_equal(symlink(p.text, link.text), 0);
        assert_ok(lsi_read_regular(link.text, 0, &text, &bytes));
        assert_string_equal(text, texts[i]);
        lsi_free(text);
        unlink(link.text);
        unlink(p.text);
    }
}

/* Neither waited for nor read without end. */
static void other_files_are_refused(void **state)
{
    (void)state;
    const path fifo = in_folder("fifo"),
               wide = write_file("wide", "12345678901");
    assert_int_equal(mkfifo(fifo.text, 0600), 0);
    refuses(fifo.text, LS_ERR_IO, "is a FIFO, not a regular file");
    refuses("/dev/zero", LS_ERR_IO, "is a device, not a regular file");
    refuses(folder, LS_ERR_IO, "is a folder, not a regular file");
    refuses("/nowhere/x", LS_ERR_IO, "No such file");
    refuses(wide.text, LS_ERR_FORMAT,
            "has 11 bytes; a file of this kind can have"
            " at most");
    unlink(fifo.text);
    unlink(wide.text);
}

static void sockets_are_refused(void **state)
{
    (void)state;
    const path p = in_folder("socket");
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", p.text);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof name), 0);
    refuses(p.text, LS_ERR_IO, "cannot open");
    close(fd);
    unlink(p.text);
}

/* ---- links --------------------------------------------------------------- */

static void expect_end(const char *from, const char *end)
{
    char out[PATH_MAX];
    assert_ok(lsi_resolve_links(from, out));
    assert_string_equal(out, end);
}

static void links_end_where_a_file_would_be(void **state)
{
    (void)state;
    const path first = in_folder("first"), second = in_folder("second");
    const path end = in_folder("end");
    assert_int_equal(symlink(second.text, first.text), 0);
    assert_int_equal(symlink("end", second.text), 0);
    expect_end(first.text, end.text); /* of which there is nothing */
    write_file("end", "x");
    expect_end(first.text, end.text);
    expect_end("/nowhere/at/all", "/nowhere/at/all");
    unlink(second.text);
    assert_int_equal(symlink("first", second.text), 0);
    char out[PATH_MAX];
    assert_error(lsi_resolve_links(first.text, out), LS_ERR_IO, first.text);
    unlink(first.text);
    unlink(second.text);
    unlink(end.text);
}

/* ---- locks --------------------------------------------------------------- */

static int open_file(const path *p)
{
    const int fd = open(p->text, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void locks_end_with_their_holder(void **state)
{
    (void)state;
    const path p = write_file("lock", "");
    const int fd = open_file(&p), other = open_file(&p);
    int said[2];
    char byte;
    assert_int_equal(pipe(said), 0);
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int own = open(p.text, O_RDWR);
        byte = lsi_lock_file(own) == LSI_FILE_LOCKED ? 'y' : 'n';
        (void)!write(said[1], &byte, 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(said[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    assert_int_equal(lsi_lock_file(fd), LSI_FILE_IS_LOCKED);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(lsi_lock_file(fd), LSI_FILE_LOCKED);
    assert_int_equal(lsi_lock_file(other), LSI_FILE_IS_LOCKED);
    close(fd);
    assert_int_equal(lsi_lock_file(other), LSI_FILE_LOCKED);
    close(other);
    close(said[0]);
    close(said[1]);
    unlink(p.text);
}

/* ---- folders ------------------------------------------------------------- */

static void remove_folders(const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(rmdir(in_folder(names[i]).text), 0);
}

static int mode_of(const char *name)
{
    struct stat info;
    return stat(in_folder(name).text, &info) == 0 && S_ISDIR(info.st_mode)
               ? (int)(info.st_mode & 0777)
               : -1;
}

static void missing_parents_are_made(void **state)
{
    static const char *const names[] = {"a/b/c", "a/b", "a"};
    (void)state;
    const mode_t before = umask(027);
    for (int i = 0; i < 2; i++) /* and what is there is fine */
        assert_ok(lsi_make_parents(in_folder("a//b/c/file").text));
    umask(before);
    for (size_t i = 0; i < TEST_COUNT(names); i++)
        assert_int_equal(mode_of(names[i]), 0750);
    assert_int_equal(mode_of("a/b/c/file"), -1);
    assert_ok(lsi_make_parents(in_folder("a/b/c/").text));
    assert_ok(lsi_make_parents("file"));
    assert_ok(lsi_make_parents("/"));
    remove_folders(names, TEST_COUNT(names));
    assert_true(lsi_make_folders(in_folder("a/b/c/").text));
    remove_folders(names, TEST_COUNT(names));
}

/* The message has what was to be written, and the folder that is in the way. */
static void what_has_no_place_is_named(void **state)
{
    char name[PATH_MAX + 10], text[400];
    (void)state;
    const path file = write_file("file", "");
    const path below = in_folder("file/a/b");
    snprintf(text, sizeof text,
             "cannot write '%s': cannot create the folder '%s/file/a': Not a "
             "directory",
             below.text, folder);
    assert_error(lsi_make_parents(below.text), LS_ERR_IO, text);
    assert_int_equal(errno, ENOTDIR);
    assert_false(lsi_make_folders(file.text));
    assert_int_equal(errno, ENOTDIR);
    unlink(file.text);
    assert_error(lsi_make_parents("/proc/none/a/b"), LS_ERR_IO,
                 "'/proc/none/a': No such file or directory");
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_error(lsi_make_parents(name), LS_ERR_IO,
                 "is too long; the limit is 4095 bytes");
    assert_false(lsi_make_folders(name));
    assert_int_equal(errno, ENAMETOOLONG);
}

/* Each time one of them is the first, and the others come across it. */
static void processes_make_the_same_folders(void **state)
{
    enum { PROCESSES = 4, TIMES = 100 };
    static const char *const names[] = {"a/b/c", "a/b", "a"};
    (void)state;
    for (int i = 0; i < TIMES; i++) {
        int go[2], status;
        assert_int_equal(pipe(go), 0);
        for (int k = 0; k < PROCESSES; k++) {
            if (fork() != 0)
                continue;
            char byte;
            close(go[1]);
            (void)!read(go[0], &byte, 1);
            _exit(lsi_make_parents(in_folder("a/b/c/x").text) != LS_OK);
        }
        close(go[0]);
        close(go[1]);
        for (int k = 0; k < PROCESSES; k++) {
            assert_true(wait(&status) > 0);
            assert_int_equal(status, 0);
        }
        remove_folders(names, TEST_COUNT(names));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regular_files_are_read),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(sockets_are_refused),
        cmocka_unit_test(links_end_where_a_file_would_be),
        cmocka_unit_test(locks_end_with_their_holder),
        cmocka_unit_test(missing_parents_are_made),
        cmocka_unit_test(what_has_no_place_is_named),
        cmocka_unit_test(processes_make_the_same_folders),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

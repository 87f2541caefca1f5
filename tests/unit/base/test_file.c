/*
 * Only regular files are read, links are followed to their ends, and locks end
 * with who holds them.
 */
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
    refuses(wide.text, LS_ERR_FORMAT, "has 11 bytes; such a file has at most");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regular_files_are_read),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(sockets_are_refused),
        cmocka_unit_test(links_end_where_a_file_would_be),
        cmocka_unit_test(locks_end_with_their_holder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

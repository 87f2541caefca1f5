/*
 * Event files: checksums against published values, records byte by byte, and
 * what stays of them when a run goes on.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/event_file.h"
#include "testing.h"

/* RFC 3720, B.4, and the check value of the catalogue of CRCs. */
static void checksums(void **state)
{
    (void)state;
    unsigned char bytes[32];
    assert_int_equal(lsi_crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(lsi_crc32c("", 0), 0);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(lsi_crc32c(bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(lsi_crc32c(bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(lsi_crc32c(bytes, 32), 0x46dd794e);
}

static void scalars_as_bytes(void **state)
{
    (void)state;
    static const unsigned char event[] = {
        0x09, 0,    0,    0, 0, 0, 0, 0xf8, 0x3f, /* 1.5 s */
        0x10, 0xac, 2,                            /* step 300 */
        0x2a, 12,   0x0a, 10};                    /* a summary of one value */
    static const unsigned char value[] = {0x0a, 3, 'a', '/',  'b',
                                          0x15, 0, 0,   0x20, 0xc0};
    unsigned char out[LSI_EVENT_MOST];
    const lsi_scalar scalar = {"a/b", -2.5};
    const size_t n = lsi_event_put_scalars(out, 1.5, 300, &scalar, 1);
    assert_int_equal(n, 12 + 26 + 4);
    assert_int_equal(out[0], 26);
    assert_memory_equal(out + 12, event, sizeof(event));
    assert_memory_equal(out + 12 + sizeof(event), value, sizeof(value));
}

static void many_scalars_fit(void **state)
{
    (void)state;
    unsigned char out[LSI_EVENT_MOST + 1];
    lsi_scalar scalars[100];
    char tag[301];
    memset(tag, 't', 300);
    tag[300] = '\0';
    for (int i = 0; i < 100; i++)
        scalars[i] = (lsi_scalar){tag, i};
    out[LSI_EVENT_MOST] = 0x5a;
    const size_t n = lsi_event_put_scalars(out, 1e9, INT64_MAX, scalars, 100);
    assert_true(n > 3000 && n <= LSI_EVENT_MOST);
    assert_int_equal(out[LSI_EVENT_MOST], 0x5a);
}

/* ---- going on ------------------------------------------------------------ */

typedef struct folder {
    char path[64];
} folder;

static folder make_folder(void)
{
    folder f = {"/tmp/lockstep-events-XXXXXX"};
    assert_non_null(mkdtemp(f.path));
    return f;
}

static int list(const char *path, struct dirent ***names)
{
    const int n = scandir(path, names, NULL, alphasort);
    assert_true(n >= 2);
    return n;
}

static void remove_folder(const folder *f)
{
    struct dirent **names;
    char path[400];
    const int n = list(f->path, &names);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/%s", f->path, names[i]->d_name);
        (void)unlink(path);
        free(names[i]);
    }
    free(names);
    assert_int_equal(rmdir(f->path), 0);
}

static int files_in(const folder *f)
{
    struct dirent **names;
    const int n = list(f->path, &names);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return n - 2;
}

/* Steps first + 1 to last, with something else after every second. */
static void write_run(const folder *f, int64_t first, int64_t last,
                      bool goes_on)
{
    const lsi_scalar step = {"loss/train", 1}, more = {"loss/validation", 2};
    lsi_event_file *file;
    assert_ok(lsi_event_file_open(&file, f->path, first, goes_on));
    for (int64_t s = first; s <= last; s++) {
        if (s > first)
            assert_ok(lsi_event_file_add(file, s, &step, 1));
        if (s % 2 == 0)
            assert_ok(lsi_event_file_add(file, s, &more, 1));
    }
    lsi_event_file_close(file);
}

/* Records of scalars in all files up to a step that never comes. */
static int64_t records_in(const folder *f)
{
    struct dirent **names;
    char path[400];
    int64_t total = 0, bytes, scalars;
    const int n = list(f->path, &names);
    for (int i = 0; i < n; i++) {
        lsi_event_place end = {.step = INT64_MAX};
        snprintf(path, sizeof(path), "%s/%s", f->path, names[i]->d_name);
        free(names[i]);
        if (i < 2)
            continue;
        FILE *const file = fopen(path, "r");
        assert_non_null(file);
        assert_ok(lsi_events_until(file, &end, &bytes, &scalars));
        assert_int_equal(fseek(file, 0, SEEK_END), 0);
        assert_int_equal(ftell(file), bytes);
        fclose(file);
        total += scalars;
    }
    free(names);
    return total;
}

/* Each step once, and each thing that came after one. */
static void no_step_is_told_twice(void **state)
{
    (void)state;
    const folder f = make_folder();
    write_run(&f, 0, 9, true);
    assert_int_equal(records_in(&f), 9 + 5);
    write_run(&f, 4, 7, true); /* from a checkpoint of step 4 */
    assert_int_equal(files_in(&f), 2);
    assert_int_equal(records_in(&f), 7 + 4);
    write_run(&f, 4, 9, true); /* from the same again */
    assert_int_equal(files_in(&f), 2);
    assert_int_equal(records_in(&f), 9 + 5);
    write_run(&f, 8, 9, true);
    assert_int_equal(files_in(&f), 3);
    assert_int_equal(records_in(&f), 9 + 5);
    write_run(&f, 0, 9, true); /* there was no checkpoint */
    assert_int_equal(files_in(&f), 1);
    assert_int_equal(records_in(&f), 9 + 5);
    write_run(&f, 0, 3, false); /* another run: nothing is lost */
    assert_int_equal(files_in(&f), 2);
    assert_int_equal(records_in(&f), 9 + 5 + 3 + 2);
    remove_folder(&f);
}

static FILE *open_file_of(const folder *f, const char *mode)
{
    struct dirent **names;
    char path[400];
    const int n = list(f->path, &names);
    snprintf(path, sizeof(path), "%s/%s", f->path, names[n - 1]->d_name);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    FILE *const file = fopen(path, mode);
    assert_non_null(file);
    return file;
}

/* A kill may have left half a record; other files are not cut. */
static void what_is_damaged(void **state)
{
    (void)state;
    const folder f = make_folder();
    write_run(&f, 0, 3, true);
    FILE *file = open_file_of(&f, "a");
    assert_int_equal(fwrite("half a record", 1, 13, file), 13);
    fclose(file);
    write_run(&f, 3, 5, true);
    assert_int_equal(records_in(&f), 3 + 2 + 2 + 1);

    const folder other = make_folder();
    char path[200];
    struct stat info;
    snprintf(path, sizeof(path), "%s/events.out.tfevents.1.host.lockstep",
             other.path);
    file = fopen(path, "w");
    fputs("something else", file);
    fclose(file);
    write_run(&other, 0, 3, true);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 14);
    remove_folder(&f);
    remove_folder(&other);
}

static void places(void **state)
{
    (void)state;
    lsi_event_file *file = NULL;
    char deep[128];
    const folder f = make_folder();
    snprintf(deep, sizeof(deep), "%s/a/b/", f.path);
    assert_ok(lsi_event_file_open(&file, deep, 0, false));
    lsi_event_file_close(file);
    snprintf(deep, sizeof(deep), "rm -r %s/a", f.path);
    assert_int_equal(system(deep), 0);
    remove_folder(&f);
    assert_error(lsi_event_file_open(&file, "", 0, false), LS_ERR_IO, "empty");
    assert_error(lsi_event_file_open(&file, "/dev/null/x", 0, false), LS_ERR_IO,
                 "'/dev/null/x'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums),
        cmocka_unit_test(scalars_as_bytes),
        cmocka_unit_test(many_scalars_fit),
        cmocka_unit_test(no_step_is_told_twice),
        cmocka_unit_test(what_is_damaged),
        cmocka_unit_test(places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

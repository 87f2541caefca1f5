/*
 * Checkpoints that are damaged at random: cut, flipped, swapped, replaced by
 * links, FIFOs and copies of each other. Whatever is opened then is what was
 * saved as that step, bit for bit; and a save, and what it removes, costs none
 * of those that are whole. LOCKSTEP_TEST_MUTATIONS says how many folders,
 * LOCKSTEP_TEST_SEED which.
 */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "checkpoint_model.h"
#include "model/checkpoint/lock.h"
#include "testing.h"

enum { USUAL = 60, STEPS = 3, FILES = 4, NEXT = 9, MOST = 3 };

static const int64_t steps[STEPS] = {3, 5, 8};
static const char *const names[FILES] = {LSI_MODEL_FILE, LSI_MANIFEST_FILE,
                                         "rank-00000-of-00002.safetensors",
                                         "rank-00001-of-00002.safetensors"};

/* ---- chance -------------------------------------------------------------- */

static lsi_rng_key key;
static uint64_t drawn;

static uint64_t below(uint64_t n)
{
    return lsi_rng_below(key, 0, drawn++, n);
}

static lsi_path any_step(const plan *p)
{
    return lsi_step_folder(p->folder, steps[below(STEPS)]);
}

static lsi_path any_file(const plan *p)
{
    return lsi_path_in(any_step(p).text, names[below(FILES)]);
}

/* ---- damage -------------------------------------------------------------- */

/* Checkpoints that earlier damage moved away are gone. */

static off_t size_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : 0;
}

static void cut(const plan *p)
{
    const lsi_path path = any_file(p);
    (void)!truncate(path.text, (off_t)below((uint64_t)size_of(path.text) + 1));
}

static void lengthen(const plan *p)
{
    const lsi_path path = any_file(p);
    if (size_of(path.text) > 0)
        (void)!truncate(path.text, size_of(path.text) + 1 + (off_t)below(100));
}

static void overwrite(const plan *p)
{
    const lsi_path path = any_file(p);
    const off_t size = size_of(path.text);
    const int fd = size > 0 ? open(path.text, O_RDWR | O_NONBLOCK) : -1;
    const uint64_t n = below(3) == 0 ? below(40) + 1 : 1;
    for (uint64_t i = 0; fd >= 0 && i < n; i++) {
        const off_t at = (off_t)below((uint64_t)size);
        unsigned char byte = 0;
        (void)!pread(fd, &byte, 1, at);
        byte = (unsigned char)(byte ^ 1U << below(8));
        (void)!pwrite(fd, &byte, 1, at);
    }
    if (fd >= 0)
        close(fd);
}

static void take_away(const plan *p)
{
    unlink(any_file(p).text);
}

static void swap(const char *a, const char *b)
{
    char aside[sizeof(lsi_path) + 8];
    snprintf(aside, sizeof aside, "%s.aside", a);
    if (rename(a, aside) != 0)
        return;
    (void)rename(b, a);
    (void)rename(aside, b);
}

static void swap_files(const plan *p)
{
    swap(any_file(p).text, any_file(p).text);
}

/* The same file of another step, so that only sums tell them apart. */
static void swap_like(const plan *p)
{
    const char *const name = names[below(FILES)];
    swap(lsi_path_in(any_step(p).text, name).text,
         lsi_path_in(any_step(p).text, name).text);
}

static void swap_steps(const plan *p)
{
    swap(any_step(p).text, any_step(p).text);
}

static void rename_step(const plan *p)
{
    (void)rename(any_step(p).text,
                 lsi_step_folder(p->folder, (int64_t)below(12)).text);
}

static void link_file(const plan *p)
{
    const char *const targets[] = {"/dev/zero", "/dev/null", "/nowhere/x",
                                   "/tmp"};
    const lsi_path path = any_file(p), other = any_file(p);
    const uint64_t which = below(2 * TEST_COUNT(targets));
    if (unlink(path.text) == 0)
        (void)!symlink(which < TEST_COUNT(targets) ? targets[which]
                                                   : other.text,
                       path.text);
}

static void link_step(const plan *p)
{
    (void)!symlink(any_step(p).text,
                   lsi_step_folder(p->folder, (int64_t)below(12)).text);
}

static void make_fifo(const plan *p)
{
    const lsi_path path = any_file(p);
    if (unlink(path.text) == 0)
        (void)mkfifo(path.text, 0600);
}

static void make_folder(const plan *p)
{
    const lsi_path path = any_file(p);
    if (unlink(path.text) == 0)
        (void)mkdir(path.text, 0700);
}

static void empty(const plan *p)
{
    const lsi_path path = any_file(p);
    if (size_of(path.text) > 0)
        (void)!truncate(path.text, 0);
}

static void add_file(const plan *p)
{
    const lsi_path path = lsi_path_in(any_step(p).text, "notes.txt");
    const int fd = open(path.text, O_CREAT | O_WRONLY, 0600);
    if (fd >= 0)
        close(fd);
}

static void (*const kinds[])(const plan *) = {
    cut,       lengthen,    overwrite, take_away, swap_files,
    swap_like, swap_steps,  overwrite, link_file, link_step,
    make_fifo, make_folder, empty,     add_file,  rename_step};

/* ---- one folder ---------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *info, int type,
                        struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    return remove(path);
}

/* load() compares what it finds with the training to that step. */
static bool opens(plan *p)
{
    run_threads((int)below(2) + 1, load, p);
    assert_true(p->status[0] == LS_OK || p->message[0][0] != '\0');
    return p->status[0] == LS_OK;
}

static void save_and_open(plan *p, bool opened, int64_t before)
{
    p->steps = NEXT;
    p->step = NEXT;
    p->keep = (int)below(3);
    run_threads((int)below(2) + 1, save, p);
    const bool saved = p->status[0] == LS_OK;
    assert_true(saved || p->message[0][0] != '\0');
    p->steps = -1;
    const bool opens_now = opens(p);
    if (saved || opened)
        assert_true(opens_now);
    if (opens_now)
        assert_true(p->opened >= (saved ? NEXT : before));
    if (!saved || !opened || p->keep == 1)
        return;
    /* It kept the one before it that is whole, and not only damaged ones. */
    assert_int_equal(unlink(file_of(p, NEXT, LSI_MANIFEST_FILE).text), 0);
    assert_true(opens(p));
    assert_int_equal(p->opened, before);
}

/* Returns whether there was still one to open. */
static bool damage_one(const plan *whole, uint64_t seed, uint64_t k)
{
    plan p = copy_plan(whole);
    key = (lsi_rng_key){seed, k};
    drawn = 0;
    p.steps = -1;
    for (uint64_t n = below(MOST) + 1; n > 0; n--)
        kinds[below(TEST_COUNT(kinds))](&p);
    const bool opened = opens(&p);
    save_and_open(&p, opened, p.opened);
    assert_int_equal(nftw(p.folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
    return opened;
}

static uint64_t number_from(const char *name, uint64_t usual)
{
    const char *const text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : usual;
}

static void only_what_was_saved_is_opened(void **state)
{
    (void)state;
    const uint64_t n = number_from("LOCKSTEP_TEST_MUTATIONS", USUAL);
    const uint64_t seed = number_from("LOCKSTEP_TEST_SEED", 1);
    uint64_t opened = 0;
    plan p = new_plan();
    for (int i = 0; i < STEPS; i++) {
        p.steps = (int)steps[i];
        save_step(&p, steps[i]);
    }
    for (uint64_t k = 0; k < n; k++) {
        if (getenv("LOCKSTEP_TEST_SEED") != NULL)
            print_message("seed %llu, folder %llu\n", (unsigned long long)seed,
                          (unsigned long long)k);
        opened += damage_one(&p, seed, k);
    }
    print_message("%llu damaged folders, %llu with a whole checkpoint\n",
                  (unsigned long long)n, (unsigned long long)opened);
    discard(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_was_saved_is_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

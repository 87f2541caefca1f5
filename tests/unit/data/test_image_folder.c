/* Folders of images as datasets. */
#include <unistd.h>

#include "lockstep/data.h"

#include "unit/data/image_files.h"

enum { SIDE = 8, CHANNELS = 3, FLOATS = CHANNELS * SIDE * SIDE };

/* Pixels as they are: x = x / 255 * 255 with a mean of 0. */
static ls_image_options plain(void)
{
    const double unit = 1.0 / 255;
    return (ls_image_options){.deviation = {unit, unit, unit}};
}

/* Class c has the images 0..n-1, of salt 16 c + i; written backwards. */
static void make_class(const char *parent, const char *name, int c, int n)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", parent, name);
    make_dir(path);
    for (int i = n - 1; i >= 0; i--) {
        snprintf(path, sizeof path, "%s/%s/%02d.png", parent, name, i);
        write_pattern(path, SIDE, SIDE, CHANNELS, 16 * c + i);
    }
}

static float value_of(int c, int64_t x, int64_t y, int64_t salt)
{
    return (float)pattern_byte(x, y, c, salt);
}

/* The image of that salt, mirrored and moved, black outside. */
static bool is_image(const float *image, int64_t salt, bool flip, int right,
                     int down)
{
    for (int c = 0; c < CHANNELS; c++)
        for (int64_t y = 0; y < SIDE; y++)
            for (int64_t x = 0; x < SIDE; x++) {
                const int64_t fx = (flip ? SIDE - 1 - x : x) - right;
                const int64_t fy = y - down;
                const bool inside =
                    fx >= 0 && fx < SIDE && fy >= 0 && fy < SIDE;
                const float want = inside ? value_of(c, fx, fy, salt) : 0;
                const float got = image[(c * SIDE + y) * SIDE + x];
                if (got < want - 1e-3F || got > want + 1e-3F)
                    return false;
            }
    return true;
}

static void read_one(const ls_dataset *set, uint64_t epoch, int64_t index,
                     float *image, int64_t *label)
{
    assert_ok(ls_dataset_read(set, epoch, &index, 1, (void *[]){image, label}));
}

static ls_dataset *open_set(const char *name, ls_subset split,
                            const ls_image_options *options)
{
    ls_dataset *set = NULL;
    assert_ok(ls_dataset_new_images(&set, in_root(name), split, options));
    return set;
}

static void make_folders(void)
{
    make_dir("both");
    make_dir("both/train");
    make_dir("both/val");
    make_class("both/train", "cat", 0, 4);
    make_class("both/train", "dog", 1, 3);
    make_class("both/train", "ant", 2, 2);
    make_class("both/val", "dog", 4, 1);
    make_class("both/val", "cat", 3, 1);
    make_class("both/val", "ant", 5, 2);
    make_dir("one");
    make_class("one", "a", 0, 13);
    make_class("one", "b", 1, 12);
    write_file("one/README.txt", "hello", 5);
    write_file("one/a/notes.txt", "hello", 5);
}

static void test_classes_and_order(void **state)
{
    (void)state;
    static const int64_t salts[] = {32, 33, 0, 1, 2, 3, 16, 17, 18};
    static const int64_t labels[] = {0, 0, 1, 1, 1, 1, 2, 2, 2};
    const ls_image_options options = plain();
    ls_dataset *set = open_set("both", LS_SUBSET_TRAIN, &options);
    assert_int_equal(ls_dataset_count(set), 9);
    assert_int_equal(ls_dataset_classes(set), 3);
    assert_string_equal(ls_dataset_class_name(set, 0), "ant");
    assert_string_equal(ls_dataset_class_name(set, 2), "dog");
    assert_int_equal(ls_dataset_field(set, LS_FIELD_IMAGES)->shape[0], 3);
    assert_int_equal(ls_dataset_field(set, LS_FIELD_IMAGES)->shape[1], SIDE);
    for (int64_t i = 0; i < 9; i++) {
        float image[FLOATS];
        int64_t label;
        read_one(set, 0, i, image, &label);
        assert_int_equal(label, labels[i]);
        assert_int_equal(ls_dataset_label(set, i), labels[i]);
        assert_true(is_image(image, salts[i], false, 0, 0));
    }
    ls_dataset_free(&set);
    set = open_set("both", LS_SUBSET_TEST, &options);
    assert_int_equal(ls_dataset_count(set), 4);
    float image[FLOATS];
    int64_t label;
    read_one(set, 0, 3, image, &label);
    assert_true(is_image(image, 64, false, 0, 0));
    ls_dataset_free(&set);
}

/* Which salts a split of `one` has, as bits. */
static uint32_t salts_of(ls_subset split, uint64_t seed)
{
    ls_image_options options = plain();
    options.seed = seed;
    ls_dataset *set = open_set("one", split, &options);
    assert_int_equal(ls_dataset_count(set), split == LS_SUBSET_TRAIN ? 23 : 2);
    uint32_t salts = 0;
    for (int64_t i = 0; i < ls_dataset_count(set); i++) {
        float image[FLOATS];
        int64_t label;
        read_one(set, 0, i, image, &label);
        const uint32_t salt = (uint32_t)image[0];
        assert_int_equal(label, salt / 16);
        assert_int_equal(salts >> salt, 0); /* in the order of the files */
        salts |= 1U << salt;
    }
    ls_dataset_free(&set);
    return salts;
}

static void test_a_tenth_is_held_out(void **state)
{
    (void)state;
    uint32_t other = 0;
    for (uint64_t seed = 0; seed < 4; seed++) {
        const uint32_t train = salts_of(LS_SUBSET_TRAIN, seed);
        const uint32_t test = salts_of(LS_SUBSET_TEST, seed);
        assert_int_equal(train & test, 0);
        assert_int_equal(train | test, 0x0fff1fff);
        assert_int_equal(salts_of(LS_SUBSET_TEST, seed), test);
        other |= test;
    }
    assert_true(__builtin_popcount(other) > 2);
}

/* One of the 2 x 5 x 5 that there can be; also which. */
static int change_of(const float *image, int64_t salt)
{
    for (int i = 0; i < 50; i++) {
        if (is_image(image, salt, i >= 25, i % 5 - 2, i / 5 % 5 - 2))
            return i;
    }
    fail_msg("the image is none that there can be");
    return -1;
}

static void test_augmentation(void **state)
{
    (void)state;
    enum { EPOCHS = 40 };
    ls_image_options options = plain();
    options.flip = true;
    options.pad = 2;
    options.seed = 5;
    ls_dataset *set = open_set("both", LS_SUBSET_TRAIN, &options);
    ls_dataset *again = open_set("both", LS_SUBSET_TRAIN, &options);
    int hits[50] = {0}, flips = 0, kinds = 0;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        for (int64_t i = 2; i < 9; i++) {
            static const int64_t salts[] = {32, 33, 0, 1, 2, 3, 16, 17, 18};
            float image[FLOATS], same[FLOATS];
            int64_t label;
            read_one(set, epoch, i, image, &label);
            const int change = change_of(image, salts[i]);
            hits[change]++;
            flips += change >= 25;
            read_one(again, epoch, i, same, &label);
            assert_memory_equal(image, same, sizeof image);
        }
    for (int i = 0; i < 50; i++)
        kinds += hits[i] > 0;
    assert_true(kinds >= 45); /* of 50, by 280 throws: 49.8 are expected */
    assert_in_range(flips, 100, 180);
    ls_dataset_free(&again);
    ls_dataset_free(&set);
    /* The images for validation are not augmented. */
    set = open_set("both", LS_SUBSET_TEST, &options);
    float image[FLOATS];
    int64_t label;
    read_one(set, 3, 3, image, &label);
    assert_true(is_image(image, 64, false, 0, 0));
    ls_dataset_free(&set);
}

static void test_size_channels_and_scale(void **state)
{
    (void)state;
    make_dir("grey");
    make_dir("grey/x");
    write_pattern("grey/x/a.png", 12, 9, 1, 0);
    write_pattern("grey/x/b.PNG", 9, 30, 3, 0);
    for (int i = 0; i < 18; i++) {
        char name[32];
        snprintf(name, sizeof name, "grey/x/c%02d.png", i);
        write_pattern(name, 9, 9, 1, i);
    }
    ls_dataset *set = open_set("grey", LS_SUBSET_TRAIN, NULL);
    const ls_field *field = ls_dataset_field(set, LS_FIELD_IMAGES);
    assert_int_equal(ls_dataset_count(set), 18);
    assert_int_equal(field->shape[0], 1);
    assert_int_equal(field->shape[1], 9);
    assert_int_equal(field->shape[2], 9);
    ls_dataset_free(&set);
    const ls_image_options options = {
        .size = 4, .channels = 3, .mean = {0.5}, .deviation = {0.5, 1, 1}};
    set = open_set("grey", LS_SUBSET_TRAIN, &options);
    float image[3 * 4 * 4];
    int64_t label;
    read_one(set, 0, 17, image, &label);
    for (int i = 0; i < 16; i++) {
        assert_true(image[16 + i] == image[32 + i]);
        const double want = (image[16 + i] - 0.5) / 0.5;
        assert_true(image[i] > want - 1e-5 && image[i] < want + 1e-5);
    }
    ls_dataset_free(&set);
}

static void refuse(const char *name, ls_status status, const char *part)
{
    ls_dataset *set = NULL;
    assert_error(
        ls_dataset_new_images(&set, in_root(name), LS_SUBSET_TRAIN, NULL),
        status, part);
    assert_null(set);
}

static void test_bad_folders(void **state)
{
    (void)state;
    make_dir("bad");
    refuse("bad", LS_ERR_FORMAT, "holds no class folders; expected a folder");
    make_class("bad", "full", 0, 12);
    make_dir("bad/hollow");
    refuse("bad", LS_ERR_FORMAT,
           "bad/hollow' holds no images; expected files that end in .png");
    write_file("bad/hollow/a.webp", "RIFF", 4);
    refuse("bad", LS_ERR_FORMAT, "bad/hollow/a.webp' is neither a PNG nor a");
    refuse("missing", LS_ERR_IO, "cannot open");
    make_dir("loop");
    make_class("loop", "a", 0, 12);
    assert_int_equal(symlink("b", in_root("loop/b")), 0);
    refuse("loop", LS_ERR_IO, "cannot access '");
    refuse("loop", LS_ERR_IO, "loop/b', possibly a class folder (fix");
    refuse("one/README.txt", LS_ERR_FORMAT,
           "README.txt' is a file of an unknown kind; supported sources of");
    make_dir("few");
    make_class("few", "a", 0, 9);
    refuse("few", LS_ERR_FORMAT, "holds 9 images; holding out a tenth");
    make_dir("unlike");
    make_dir("unlike/train");
    make_dir("unlike/val");
    make_class("unlike/train", "a", 0, 1);
    make_class("unlike/train", "b", 0, 1);
    make_class("unlike/val", "a", 0, 1);
    make_class("unlike/val", "c", 0, 1);
    refuse("unlike", LS_ERR_FORMAT,
           "only one of the two folders holds the class 'b'");
}

static void test_bad_images(void **state)
{
    (void)state;
    make_dir("cut");
    make_class("cut", "a", 0, 20);
    write_file("cut/a/07.png", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
    ls_dataset *set = open_set("cut", LS_SUBSET_TRAIN, NULL);
    int failed = 0;
    for (int64_t i = 0; i < ls_dataset_count(set); i++) {
        float image[FLOATS];
        int64_t label;
        const ls_status status =
            ls_dataset_read(set, 0, &i, 1, (void *[]){image, &label});
        if (status != LS_OK)
            assert_error(status, LS_ERR_FORMAT,
                         "a/07.png' is damaged or cut off");
        failed += status != LS_OK;
    }
    assert_true(failed <= 1); /* it may be held out */
    ls_dataset_free(&set);
}

static void test_bad_options(void **state)
{
    (void)state;
    static const struct {
        ls_image_options options;
        const char *part;
    } bad[] = {
        {{.size = -1}, "size is -1; expected 1 to 8192, or 0"},
        {{.channels = 2}, "channels is 2; expected 1 or 3, or 0"},
        {{.pad = -1}, "pad is -1"},
        {{.deviation = {1, 0, 1}}, "deviation of channel 1 is 0"},
        {{.deviation = {-1, 1, 1}}, "deviation of channel 0 is -1"},
    };
    ls_dataset *set = NULL;
    for (size_t i = 0; i < TEST_COUNT(bad); i++)
        assert_error(ls_dataset_new_images(&set, in_root("both"),
                                           LS_SUBSET_TRAIN, &bad[i].options),
                     LS_ERR_ARGUMENT, bad[i].part);
    assert_error(
        ls_dataset_new_images(&set, in_root("both"), (ls_subset)2, NULL),
        LS_ERR_ARGUMENT, "subset 2 is neither");
}

static int make_all(void **state)
{
    const int status = make_root(state);
    if (status == 0)
        make_folders();
    return status;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_and_order),
        cmocka_unit_test(test_a_tenth_is_held_out),
        cmocka_unit_test(test_augmentation),
        cmocka_unit_test(test_size_channels_and_scale),
        cmocka_unit_test(test_bad_folders),
        cmocka_unit_test(test_bad_images),
        cmocka_unit_test(test_bad_options),
    };
    return cmocka_run_group_tests(tests, make_all, remove_root);
}

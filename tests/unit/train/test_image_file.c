/*
 * The file of an image network: every member that is
 * missing or wrong is refused with a sentence that names it.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "testing.h"
#include "train/jobs/image_file.h"

static char path[] = "/tmp/lockstep-image-file-XXXXXX";

static const char whole[] =
    "{\"model\": \"cifar-net\", \"channels\": 3, \"height\": 32, \"width\": "
    "24, \"seed\": 7, \"mean\": [0.5, 0.25, 0], \"deviation\": [1, 0.5, 2e-1], "
    "\"classes\": [\"Stra\xc3\x9f"
    "e\", null]}";

/* A safetensors file without tensors: its header says everything. */
static void write_file(const char *about)
{
    char header[2048] = "{\"__metadata__\": {\"" LSI_IMAGE_NET_KEY "\": \"";
    size_t n = strlen(header);
    for (; *about != '\0'; about++) {
        const unsigned char c = (unsigned char)*about;
        assert_true(n + 16 < sizeof(header));
        n += (size_t)sprintf(header + n,
                             c == '"' || c == '\\' ? "\\%c"
                             : c < ' '             ? "\\u%04x"
                                                   : "%c",
                             c);
    }
    n += (size_t)sprintf(header + n, "\"}}");
    const uint64_t bytes = n;
    FILE *const file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&bytes, sizeof(bytes), 1, file), 1);
    assert_int_equal(fwrite(header, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static ls_status read_back(const char *about, lsi_image_file *out)
{
    write_file(about);
    return lsi_image_file_read(out, path);
}

static void a_whole_file(void **state)
{
    (void)state;
    lsi_image_file file;
    assert_ok(read_back(whole, &file));
    assert_string_equal(file.config.name, "cifar-net");
    assert_int_equal(file.config.channels, 3);
    assert_int_equal(file.config.height, 32);
    assert_int_equal(file.config.width, 24);
    assert_int_equal(file.config.classes, 2);
    assert_int_equal(file.seed, 7);
    assert_true(file.normalization.mean[1] == 0.25);
    assert_true(file.normalization.deviation[2] == 0.2);
    assert_string_equal(lsi_image_file_class(&file, 0), "Stra\xc3\x9f"
                                                        "e");
    assert_null(lsi_image_file_class(&file, 1));
    lsi_image_file_free(&file);
}

/* The text of the whole file with another member; NULL: without it. */
static char *changed(const char *key, const char *value)
{
    json_t *const json = json_loads(whole, 0, NULL);
    assert_non_null(json);
    if (value == NULL)
        json_object_del(json, key);
    else
        json_object_set_new(json, key,
                            json_loads(value, JSON_DECODE_ANY, NULL));
    char *const text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    assert_non_null(text);
    return text;
}

static void expect_refusal(const char *key, const char *value)
{
    lsi_image_file file;
    char quoted[32];
    char *const text = changed(key, value);
    snprintf(quoted, sizeof(quoted), "\"%s\"", key);
    const ls_status status = read_back(text, &file);
    if (status != LS_ERR_FORMAT || strstr(ls_last_error(), quoted) == NULL ||
        strstr(ls_last_error(), path) == NULL || file.json != NULL)
        fail_msg("%s %s: %d, %s", key, value, (int)status, ls_last_error());
    free(text);
}

static void wrong_members(void **state)
{
    (void)state;
    static const struct {
        const char *key, *values[16]; /* NULL ends them */
    } cases[] = {
        {"model", {"1", "null", "[\"cifar-net\"]"}},
        {"channels", {"0", "2", "4", "-1", "3.0", "\"3\"", "null"}},
        {"height", {"0", "-32", "8193", "1e9", "32.5", "\"32\"", "[32]"}},
        {"width", {"0", "9223372036854775807", "true"}},
        {"seed", {"-1", "7.0", "\"7\"", "null"}},
        {"mean",
         {"0.5", "null", "[]", "[0.5]", "[0.5, 0.5]", "[1, 1, 1, 1]",
          "[0.5, \"0.5\", 0.5]", "[0.5, null, 0.5]", "[[0], [0], [0]]",
          "{\"0\": 1, \"1\": 1, \"2\": 1}"}},
        {"deviation",
         {"[0, 1, 1]", "[1, 1, -1]", "[1, 1, \"1\"]", "[1, 1]", "1",
          "[true, true, true]"}},
        {"classes",
         {"[]", "2", "null", "\"dog\"", "[\"dog\", 1]", "[[\"dog\"]]",
          "{\"0\": \"dog\"}", "[true, false]"}},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        expect_refusal(cases[i].key, NULL);
        for (const char *const *v = cases[i].values; *v != NULL; v++)
            expect_refusal(cases[i].key, *v);
    }
}

static void what_is_no_object(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "1",
                                        "null",
                                        "{\"mean\": [NaN, 0, 0]}",
                                        "{\"mean\": [1e999, 0, 0]}",
                                        "{\"classes\": [\"\\u0000\"]}"};
    lsi_image_file file;
    for (size_t i = 0; i < TEST_COUNT(texts); i++)
        assert_error(read_back(texts[i], &file), LS_ERR_FORMAT,
                     "metadata \"image_net\"");
}

/* A byte after the other becomes each of these: good, or refused. */
static void damaged_bytes(void **state)
{
    (void)state;
    static const char others[] = "\x01\"0]}\xff";
    char text[sizeof(whole)];
    int refused = 0;
    for (size_t at = 0; at < sizeof(whole) - 1; at++)
        for (const char *other = others; *other != '\0'; other++) {
            lsi_image_file file;
            memcpy(text, whole, sizeof(whole));
            text[at] = *other;
            const ls_status status = read_back(text, &file);
            if (status == LS_OK) {
                assert_true(file.config.classes >= 1);
                assert_true(file.normalization.deviation[0] > 0);
                lsi_image_file_free(&file);
                continue;
            }
            assert_int_equal(status, LS_ERR_FORMAT);
            assert_non_null(strstr(ls_last_error(), path));
            refused++;
        }
    assert_true(refused > 300);
}

static int make(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int drop(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_file),
        cmocka_unit_test(wrong_members),
        cmocka_unit_test(what_is_no_object),
        cmocka_unit_test(damaged_bytes),
    };
    return cmocka_run_group_tests(tests, make, drop);
}

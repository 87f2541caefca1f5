/* Recordings of memory that are made byte by byte: damaged, cut off, foreign.
 */
#include "testing.h"

#include "chunks.h"
#include "observe/memory_events.h"
#include "report/memory_file.h"

static chunks_bytes begin_file(void)
{
    chunks_bytes b = chunks_begin("\"memory\":[]");
    CHUNK(&b, 'N', 0, 'x');
    return b;
}

static void check_refused(const void *data, size_t bytes, const char *message)
{
    lsi_memory_file *f = NULL;
    assert_error(lsi_memory_read(chunks_file(data, bytes), &f), LS_ERR_FORMAT,
                 message);
    assert_null(f);
}

static void what_is_no_recording_is_refused(void **state)
{
    static const char older[] = "by an older version of Lockstep";
    (void)state;
    check_refused("", 0, "is not a trace or a recording of memory");
    check_refused("LSTRACE9", 8, "is not a trace or a recording of memory");
    check_refused("LSTRACE1H", 9, older);
    check_refused("lockstep memory 1\nh {}\n", 23, older);
    check_refused(LSI_CHUNKS_MAGIC, 8, "it ends within its header");
    chunks_bytes b = chunks_begin("\"kinds\":[]");
    check_refused(b.data, b.n, "is a trace, not a recording of memory");
    CHUNK(&b, 'M', LSI_MEMORY_KEPT_NOW, 0, 0);
    check_refused(b.data, b.n,
                  "a part of a memory recording is in the wrong place");
}

/* The bytes of one chunk that follow a name, as a case. */
#define CASE(message, ...)                                                     \
    {                                                                          \
        message, {__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__})               \
    }

static void events_are_checked(void **state)
{
    static const struct {
        const char *message;
        uint8_t data[32];
        size_t n;
    } cases[] = {
        CASE("event 1 has an unknown type", LSI_MEMORY_EVENTS),
        CASE("has a number that is out of range", LSI_MEMORY_PATH, 0),
        CASE("has an invalid path", LSI_MEMORY_PATH, 1, 1),
        CASE("has an invalid path", LSI_MEMORY_PATH, 0, 2),
        CASE("has an invalid path", LSI_MEMORY_CALL, 0, 7, LSI_MEMORY_PATH, 1,
             1),
        CASE("has an invalid call stack", LSI_MEMORY_CALL, 1, 7),
        CASE("has an invalid block", LSI_MEMORY_TAKEN, 1, 0, 5, 99, 0, 0, 0, 0,
             0),
        CASE("refers to a name or a path", LSI_MEMORY_TAKEN, 1, 0, 5, 0, 0, 0,
             0, 0, 7),
        CASE("frees a block that is not allocated", LSI_MEMORY_GIVEN, 1, 0),
        CASE("event 2 is earlier", LSI_MEMORY_TAKEN, 1, 5, 5, 0, 0, 0, 0, 0, 0,
             LSI_MEMORY_GIVEN, 1, 4),
        CASE("has a block number that is not larger than the previous one",
             LSI_MEMORY_TAKEN, 1, 5, 5, 0, 0, 0, 0, 0, 0, LSI_MEMORY_TAKEN, 1,
             5, 5, 0, 0, 0, 0, 0, 0),
        CASE("has an invalid operation", LSI_MEMORY_OPERATION, 0, 0),
        CASE("unknown kind of memory", LSI_MEMORY_COUNTED, 0, 99, 2),
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        chunks_bytes b = begin_file();
        chunks_put_chunk(&b, 'M', cases[i].data, cases[i].n);
        check_refused(b.data, b.n, cases[i].message);
    }
}

static void the_end_is_checked(void **state)
{
    (void)state;
    chunks_bytes b = begin_file();
    CHUNK(&b, 'M', LSI_MEMORY_KEPT_NOW, 0, 0);
    CHUNK(&b, 'Z', 0, 2);
    check_refused(
        b.data, b.n,
        "the end of the file states 2 events, but the file contains 1");
    b = begin_file();
    CHUNK(&b, 'Z', 0, 0);
    CHUNK(&b, 'M', LSI_MEMORY_KEPT_NOW, 0, 0);
    check_refused(b.data, b.n,
                  "a part of a memory recording is in the wrong place");
}

static void what_was_cut_off_is_good_up_to_there(void **state)
{
    (void)state;
    lsi_memory_file *f = NULL;
    chunks_bytes b = begin_file();
    CHUNK(&b, 'M', LSI_MEMORY_KEPT_NOW, 0, 100, LSI_MEMORY_TAKEN_OF_POOL, 1, 10,
          64, 3, 0, 0, 0, 0, 0);
    CHUNK(&b, 'M', LSI_MEMORY_TAKEN_OF_POOL, 2, 20, 32, 3, 0, 0, 0, 0, 0);
    assert_ok(lsi_memory_read(chunks_file(b.data, b.n - 1), &f));
    assert_false(f->process->whole);
    assert_int_equal(f->n_blocks, 1);
    assert_int_equal(f->peak, 100);
    assert_int_equal(f->live_peak, 64);
    lsi_memory_file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_recording_is_refused),
        cmocka_unit_test(events_are_checked),
        cmocka_unit_test(the_end_is_checked),
        cmocka_unit_test(what_was_cut_off_is_good_up_to_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

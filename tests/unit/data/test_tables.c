/* Tables of numbers: cells in quotes, and whether the first row is a header. */
#include <fcntl.h>

#include "lockstep/data.h"
#include "unit/data/own_files.h"

/* Opens a table, and takes what the log has written meanwhile. */
static ls_status open_table(const char *text, const char *label,
                            ls_csv_header header, ls_dataset **out,
                            char warning[512])
{
    const ls_csv_options options = {.header = header};
    write_file("t.csv", text, strlen(text));
    const int log = open(in_root("log"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    const int before = dup(STDERR_FILENO);
    assert_true(log >= 0 && before >= 0);
    dup2(log, STDERR_FILENO);
    const ls_status status =
        ls_dataset_new_csv(out, in_root("t.csv"), label, &options);
    dup2(before, STDERR_FILENO);
    const ssize_t n = pread(log, warning, 511, 0);
    assert_true(n >= 0);
    warning[n] = '\0';
    close(before);
    close(log);
    return status;
}

typedef struct row {
    const char *text, *label;
    ls_csv_header header;
    int64_t items;
    float first;       /* of the first item */
    const char *warns; /* part of the warning; NULL: none */
} row;

#define AUTO LS_CSV_AUTO
#define YES  LS_CSV_HEADER
#define NO   LS_CSV_NO_HEADER

static const row rows[] = {
    /* names, with and without a column of row numbers as pandas has it */
    {"a,b\n1,2\n3,4\n", NULL, AUTO, 2, 1, NULL},
    {",a,b\n0,1,2\n1,3,4\n", NULL, AUTO, 2, 0, NULL},
    {"_x,\303\251t\303\251\n1,2\n", NULL, AUTO, 1, 1, NULL},
    {"1,2\n3,4\n", NULL, AUTO, 2, 1, NULL},
    {"1.5,-2\n3,4\n", NULL, AUTO, 2, 1.5F, NULL},
    {"5\n6\n", NULL, AUTO, 2, 5, NULL},
    {"1\n100000000000000000000\n", NULL, AUTO, 2, 1, NULL}, /* above 2^63 */
    /* the numbers of columns, as pandas writes them without names */
    {"0,1,2\n0.5,0.25,0\n1.5,1.25,1\n", "last", AUTO, 2, 0.5F,
     "'0', is a numb"},
    {",0,1\n0,7,8\n1,8,9\n", NULL, AUTO, 2, 0, "column 2, '0', is a number"},
    {"0,1,2\n5,3,1\n", NULL, AUTO, 1, 5, "column names"},
    {"0,1\n0.5,1\n", NULL, AUTO, 1, 0.5F, "column names"},
    {"0,1\n1,0\n", NULL, AUTO, 2, 0, "read as data"},
    {"0,1,2\n3,4,5\n", NULL, AUTO, 2, 0, "read as data"},
    {"0,1,2\n", NULL, AUTO, 1, 0, "read as data"},
    {"0,1,2\n0.5,0.25,0\n", NULL, YES, 1, 0.5F, NULL},
    {"0,1,2\n0.5,0.25,0\n", NULL, NO, 2, 0, NULL},
    {"0,1,2\n0.5,0.25,0\n", "2", AUTO, 1, 0.5F, NULL},
    /* years */
    {"\"2019\",\"2020\"\n0.5,0.25\n", NULL, AUTO, 1, 0.5F,
     "'2019', is a number"},
    {"\"2019\",\"2020\"\n\"1\",\"2\"\n", NULL, AUTO, 2, 2019, NULL},
    {"id,2019,2020\n1,2,3\n", NULL, AUTO, 1, 1,
     "column 2, '2019', is a number"},
    {"2019,2020\n1,2\n", NULL, YES, 1, 1, NULL},
    {"2019,2020\n1,2\n", "2020", AUTO, 1, 1, NULL},
    /* names that could be something else */
    {"Id,1stFlrSF\n1,2\n", NULL, AUTO, 1, 1, "neither a number nor clearly"},
    {"nan,inf,c\n1,2,3\n", NULL, AUTO, 1, 1, "'nan', is neither"},
    {"2020-01-01,2020-01-02\n1,2\n", NULL, AUTO, 1, 1, "'2020-01-01', is nei"},
    /* cells in quotes */
    {"\"a,b\",\"c \"\"d\"\"\"\n1,2\n", "c \"d\"", AUTO, 1, 1, NULL},
    {"\"a\nb\",c\n\"1\",2\n\"3\", \"4\" \n", "last", AUTO, 2, 1, NULL},
    {"\"a;b\",c\r\n1,\" 2 \"\r\n", "c", AUTO, 1, 1, NULL},
    {"\"a\"\"\",c\n1,2", "a\"", AUTO, 1, 2, NULL},
};

static void test_first_rows(void **state)
{
    (void)state;
    for (const row *r = rows; r < rows + TEST_COUNT(rows); r++) {
        char warning[512];
        ls_dataset *set = NULL;
        const int64_t index = 0;
        float features[8];
        int64_t label;
        if (open_table(r->text, r->label, r->header, &set, warning) != LS_OK)
            fail_msg("%s: %s", r->text, ls_last_error());
        if (ls_dataset_count(set) != r->items)
            fail_msg("%s: %d items", r->text, (int)ls_dataset_count(set));
        assert_ok(
            ls_dataset_read(set, 0, &index, 1, (void *[]){features, &label}));
        assert_true(features[0] == r->first);
        if (r->warns == NULL ? warning[0] != '\0'
                             : strstr(warning, r->warns) == NULL)
            fail_msg("%s: the log has '%s'", r->text, warning);
        ls_dataset_free(&set);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        ls_csv_header header;
        const char *part;
    } wrong[] = {
        {"1.5;NA\n2.5;1\n", AUTO,
         "line 1, column 2: 'NA' is not a number; if the first row names the "
         "columns, set header to LS_CSV_HEADER"},
        {"1 2,0\n3,1\n", AUTO, "line 1, column 1: '1 2' is not a number"},
        {"5.1,3.5,setosa\n4.9,3.0,1\n", AUTO, "line 1, column 3: 'setosa'"},
        {"0x10,2\n3,4\n", AUTO, "line 1, column 1: '0x10' is not a number"},
        {"a,b\n0x10,2\n", AUTO, "line 2, column 1: '0x10' is not a number"},
        {"1,2\n3,0X1p3\n", AUTO, "line 2, column 2: '0X1p3' is not a number"},
        {"a,b\n1,2\n", NO, "line 1, column 1: 'a' is not a number"},
        {"1,5;2,5\n3,5;4,5\n", AUTO, "'3,5' is not a number"},
        {"a,b\n1,\"2\n", AUTO,
         "line 2, column 2: the closing quote of the cell"},
        {"a,b\n\"1\"2,3\n", AUTO,
         "line 2, column 1: the closing quote must be followed"},
        {"\"a\nb\",c\n1,2\n3\n", AUTO,
         "line 4: this row has 1 columns, but the first row has 2"},
        {"\"a\nb\",c\n1,x\n", AUTO, "line 3, column 2: 'x' is not a number"},
        {"1,2\n", YES, "holds column names, but no rows"},
    };
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        char warning[512];
        ls_dataset *set = NULL;
        assert_error(
            open_table(wrong[i].text, NULL, wrong[i].header, &set, warning),
            LS_ERR_FORMAT, wrong[i].part);
        assert_null(set);
    }
    ls_dataset *set = NULL;
    assert_error(
        ls_dataset_new_csv(&set, in_root("t.csv"), NULL,
                           &(ls_csv_options){.header = (ls_csv_header)3}),
        LS_ERR_ARGUMENT, "csv: header is 3; expected");
}

static ls_dataset *table(const char *text, const char *label)
{
    ls_dataset *set = NULL;
    write_file("t.csv", text, strlen(text));
    assert_ok(ls_dataset_new_csv(&set, in_root("t.csv"), label, NULL));
    return set;
}

static void test_tables(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "a,class,b\n1,2,3.5\n-4e1,0, 6\n",
        "\"a\";\"class\";b\r\n1;2;3.5\r\n\r\n-40;0;6",
        "a\tclass\tb\n1\t2\t3.5\n-40\t0\t6\n",
        /* As spreadsheets write it. */
        "\357\273\277a,class,b\r\n1,2,3.5\r\n-40,0,6\r\n",
    };
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        ls_dataset *set = table(texts[i], "class");
        const int64_t both[] = {0, 1};
        float features[4];
        int64_t labels[2];
        assert_int_equal(ls_dataset_count(set), 2);
        assert_int_equal(ls_dataset_classes(set), 3);
        assert_int_equal(ls_dataset_label(set, 0), 2);
        assert_int_equal(ls_dataset_field(set, 0)->shape[0], 2);
        assert_ok(
            ls_dataset_read(set, 0, both, 2, (void *[]){features, labels}));
        assert_true(features[0] == 1 && features[1] == 3.5F &&
                    features[2] == -40 && features[3] == 6);
        assert_int_equal(labels[0], 2);
        assert_int_equal(labels[1], 0);
        ls_dataset_free(&set);
    }
    ls_dataset *set = table("1,2,3", NULL);
    assert_int_equal(ls_dataset_field_count(set), 1);
    assert_int_equal(ls_dataset_field(set, 0)->shape[0], 3);
    ls_dataset_free(&set);
    set = table("\xef\xbb\xbf"
                "1,2\n",
                NULL);
    assert_int_equal(ls_dataset_count(set), 1);
    ls_dataset_free(&set);
    set = table("1.5,1\n2.5,0\n", "last");
    assert_int_equal(ls_dataset_label(set, 0), 1);
    ls_dataset_free(&set);
}

static void test_wrong_tables(void **state)
{
    (void)state;
    static const struct {
        const char *text, *label, *part;
        ls_status status;
    } wrong[] = {
        {"a,b\n1,2\n3,x\n", NULL, "line 3, column 2: 'x' is not a number",
         LS_ERR_FORMAT},
        {"1,2\n3\n", NULL,
         "line 2: this row has 1 columns, but the first row has 2",
         LS_ERR_FORMAT},
        {"a,b\n", NULL, "holds column names, but no rows", LS_ERR_FORMAT},
        {"\n\n", NULL, "holds no rows", LS_ERR_FORMAT},
        {"1,nan\n2,3\n", NULL, "line 1, column 2: 'nan' is not a number",
         LS_ERR_FORMAT},
        {"1,,3\n2,3,4\n", NULL, "line 1, column 2: '' is not a number",
         LS_ERR_FORMAT},
        {",b\n2,3\n4,inf\n", NULL, "line 3, column 2: 'inf' is not a number",
         LS_ERR_FORMAT},
        {"1,1e39\n2,3\n", NULL, "line 1, column 2: '1e39' is not a number",
         LS_ERR_FORMAT},
        {"a,b\n1,2.5\n", "b", "column 2: '2.5' is not a class", LS_ERR_FORMAT},
        {"a,b\n1,-1\n", "b", "'-1' is not a class", LS_ERR_FORMAT},
        {"a,b\n1,2\n", "c", "has no column 'c'", LS_ERR_ARGUMENT},
        {"1,2\n", "c", "does not name the columns", LS_ERR_ARGUMENT},
        {"1\n", "last", "has 1 columns; expected 1 to", LS_ERR_FORMAT},
    };
    ls_dataset *set = NULL;
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        write_file("w.csv", wrong[i].text, strlen(wrong[i].text));
        assert_error(
            ls_dataset_new_csv(&set, in_root("w.csv"), wrong[i].label, NULL),
            wrong[i].status, wrong[i].part);
    }
    /* A first row that is long, and rows that are not, take no memory. */
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    for (int i = 0; i < 60000; i++)
        fputs("1,", f);
    for (int i = 0; i < 1000000; i++)
        fputs("2\n", f);
    assert_int_equal(fclose(f), 0);
    write_file("w.csv", text, bytes);
    free(text);
    assert_error(ls_dataset_new_csv(&set, in_root("w.csv"), NULL, NULL),
                 LS_ERR_FORMAT,
                 "line 2: this row has 1 columns, but the first row has 60001");
    write_file("w.csv", "\x93NUMPY\x01\x00", 8);
    assert_error(ls_dataset_new_csv(&set, in_root("w.csv"), NULL, NULL),
                 LS_ERR_FORMAT,
                 "w.csv' is an .npy array; expected a table of numbers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_rows),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_wrong_tables),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}

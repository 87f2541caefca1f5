/* Numbers, sizes and words with commas between them, and steps of sizes. */
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "cli/frame/list.h"
#include "fuzz.h"

static ls_status count_word(void *context, const char *word)
{
    fuzz_demand(strchr(word, ',') == NULL);
    ++*(size_t *)context;
    return LS_OK;
}

static size_t commas(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += *text == ',';
    return n;
}

static void check_list(const lsi_list *list, int64_t min, int64_t max)
{
    fuzz_demand(list->n >= 1 && list->n <= LSI_LIST_MAX);
    for (size_t i = 0; i < list->n; i++)
        fuzz_demand(list->values[i] >= min && list->values[i] <= max);
}

static void parse(const char *text)
{
    static lsi_list list;
    int64_t bytes = 0;
    size_t words = 0;
    if (fuzz_ok(lsi_parse_bytes(text, &bytes)))
        fuzz_demand(bytes >= 0);
    if (fuzz_ok(lsi_list_of_numbers("-x", text, -10, 1 << 20, &list))) {
        check_list(&list, -10, 1 << 20);
        fuzz_demand(list.n == commas(text) + 1);
    }
    if (fuzz_ok(lsi_list_of_sizes("-x", text, 0, INT64_MAX, &list))) {
        check_list(&list, 0, INT64_MAX);
        fuzz_demand(list.n == commas(text) + 1);
    }
    if (fuzz_ok(lsi_each_word("-x", text, count_word, &words)))
        fuzz_demand(words == commas(text) + 1);
}

/* As the flags -b, -e, -i and -f of benchmarks bound them. */
static void step(const char *text)
{
    static lsi_list flags, list;
    const int64_t most = 1000000000000;
    if (lsi_list_of_sizes("-x", text, 0, most, &flags) != LS_OK || flags.n < 4)
        return;
    const lsi_list_steps steps = {.min = flags.values[0],
                                  .max = flags.values[1],
                                  .add = flags.values[2],
                                  .factor = 2 + flags.values[3] % (1 << 20)};
    if (fuzz_ok(lsi_list_of_steps(&steps, &list)))
        check_list(&list, steps.min, steps.max);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    char *text = fuzz_rest(&in);
    parse(text);
    step(text);
    free(text);
    return 0;
}

/*
 * The error file and the traceback of a Python program.
 */
#include <string.h>

#include "fuzz.h"
#include "launch/python.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char message[40] = "";
    json_t *json = NULL;
    const char *const text = (const char *)data;
    if (fuzz_ok(lsi_python_error_parse(text, size, message, sizeof(message),
                                       &json))) {
        fuzz_demand(json != NULL);
        fuzz_demand(strlen(message) < sizeof(message));
        fuzz_demand(strpbrk(message, "\n\033\177") == NULL);
    }
    json_decref(json);
    if (lsi_python_last_line(text, size, message, sizeof(message))) {
        fuzz_demand(strlen(message) < sizeof(message));
        fuzz_demand(strpbrk(message, "\n\033\177") == NULL);
    }
    return 0;
}

#include "model/autograd/layer_span.h"

#include <inttypes.h>
#include <string.h>

#include "array/compute/threads.h"
#include "base/append.h"
#include "model/autograd/params.h"
#include "observe/names.h"
#include "observe/span_file.h"

static const char suffix[] = ".weight";

static size_t length_without_suffix(const char *name)
{
    const size_t n = strlen(name), tail = sizeof(suffix) - 1;
    return n > tail && strcmp(name + n - tail, suffix) == 0 ? n - tail : n;
}

/* The end of a name that is too long: layers differ there. */
static void append_name(char out[LSI_NAME_BYTES], const char *name)
{
    size_t n = length_without_suffix(name);
    const size_t room = LSI_NAME_BYTES - 1 - strlen(out);
    while (n > room || (n > 0 && ((unsigned char)*name & 0xc0) == 0x80)) {
        name++;
        n--;
    }
    lsi_append(out, LSI_NAME_BYTES, "%.*s", (int)n, name);
}

void lsi_layer_enter(const ls_tensor *weight_or_null, const char *operation,
                     lsi_layer_pass pass)
{
    const ls_tensor *const weight = weight_or_null;
    char name[LSI_NAME_BYTES] = "";
    if (weight == NULL)
        return;
    for (int d = 0; d < weight->ndim; d++)
        lsi_append(name, sizeof(name), "%s%" PRId64, d > 0 ? "x" : "",
                   weight->shape[d]);
    lsi_append(name, sizeof(name), " ");
    append_name(name, weight->param != NULL ? weight->param->name : operation);
    lsi_span_set_threads(lsi_threads());
    lsi_span_enter_layer(name, pass);
}

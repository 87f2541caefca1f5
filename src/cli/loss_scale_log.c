#include "cli/loss_scale_log.h"

#include <inttypes.h>
#include <stdio.h>

void lsi_loss_scale_text(char text[LSI_LOSS_SCALE_TEXT], double scale,
                         int64_t skipped)
{
    text[0] = '\0';
    if (scale > 0)
        snprintf(text, LSI_LOSS_SCALE_TEXT,
                 ", loss scale %g, %" PRId64 " skipped", scale, skipped);
}

json_t *lsi_loss_scale_json(json_t *line, double scale, int64_t skipped)
{
    if (line == NULL || scale <= 0)
        return line;
    if (json_object_set_new(line, "loss_scale", json_real(scale)) == 0 &&
        json_object_set_new(line, "skipped", json_integer(skipped)) == 0)
        return line;
    json_decref(line);
    return NULL;
}

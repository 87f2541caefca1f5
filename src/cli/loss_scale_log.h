/*
 * What lines and metrics of training say about scaled losses.
 */
#ifndef LS_CLI_LOSS_SCALE_LOG_H
#define LS_CLI_LOSS_SCALE_LOG_H

#include <jansson.h>
#include <stdint.h>

enum { LSI_LOSS_SCALE_TEXT = 80 };

/* ", loss scale 65536, 0 skipped"; nothing if losses are not scaled. */
void lsi_loss_scale_text(char text[LSI_LOSS_SCALE_TEXT], double scale,
                         int64_t skipped);

/*
 * Adds "loss_scale" and "skipped" to a line of metrics, if losses are scaled.
 * Returns the line, or NULL, as jansson does, if memory ran out.
 */
json_t *lsi_loss_scale_json(json_t *line, double scale, int64_t skipped);

#endif

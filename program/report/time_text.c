#include "report/time_text.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

static const double most = 1e9; /* half a life */

void lsi_time_text(char out[LSI_TIME_TEXT], double seconds)
{
    if (!(seconds >= 0 && seconds < most)) {
        snprintf(out, LSI_TIME_TEXT, "-:--");
        return;
    }
    const int64_t s = (int64_t)seconds;
    if (s < 3600)
        snprintf(out, LSI_TIME_TEXT, "%" PRId64 ":%02" PRId64, s / 60, s % 60);
    else
        snprintf(out, LSI_TIME_TEXT, "%" PRId64 ":%02" PRId64 ":%02" PRId64,
                 s / 3600, s / 60 % 60, s % 60);
}

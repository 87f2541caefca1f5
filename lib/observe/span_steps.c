#include "observe/span_steps.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "observe/span_file.h"
#include "observe/spans.h"

static uint64_t first, count;          /* count 0: all */
static _Atomic bool limited, numbered; /* by lsi_span_begin_step */
static _Atomic uint64_t optimizer_steps;

/* A number from 1 to 10^15 at *text, which moves behind it; 0: none. */
static uint64_t take_number(const char **text)
{
    char *end;
    if (**text < '0' || **text > '9')
        return 0;
    const unsigned long long value = strtoull(*text, &end, 10);
    *text = end;
    return value <= UINT64_C(1000000000000000) ? value : 0;
}

ls_status lsi_span_limit_steps(const char *what, const char *text)
{
    if (text == NULL)
        return LS_OK;
    const char *at = text;
    const uint64_t from = take_number(&at);
    const bool colon = from > 0 && *at == ':';
    at += colon;
    const uint64_t n = colon ? take_number(&at) : 0;
    if (n == 0 || *at != '\0')
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s '%s' is not FIRST:COUNT, two numbers from 1 on, "
                        "such as 100:5 for the steps 100 to 104",
                        what, text);
    first = from;
    count = n;
    atomic_store(&limited, true);
    return LS_OK;
}

bool lsi_span_step_is_traced(uint64_t number)
{
    return !atomic_load(&limited) ||
           (number >= first && number - first < count);
}

static void at_step(uint64_t number)
{
    const bool on = lsi_span_step_is_traced(number);
    if (on != lsi_span_is_written())
        lsi_span_pause(!on);
}

void lsi_span_begin_step(uint64_t number)
{
    if (!atomic_load_explicit(&limited, memory_order_relaxed))
        return;
    atomic_store(&numbered, true);
    at_step(number);
}

void lsi_span_end_optimizer_step(void)
{
    if (!atomic_load_explicit(&limited, memory_order_relaxed) ||
        atomic_load(&numbered))
        return;
    at_step(atomic_fetch_add(&optimizer_steps, 1) + 2);
}

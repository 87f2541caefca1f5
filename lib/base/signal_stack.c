#include "base/signal_stack.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

enum { STACK_BYTES = 64 << 10 };

static _Alignas(64) char spare_stack[STACK_BYTES];
static atomic_flag taken = ATOMIC_FLAG_INIT;

void lsi_use_signal_stack(void)
{
    const stack_t stack = {.ss_sp = spare_stack, .ss_size = STACK_BYTES};
    stack_t before;
    if (sigaltstack(NULL, &before) == 0 &&
        (before.ss_flags & SS_DISABLE) != 0 &&
        !atomic_flag_test_and_set(&taken))
        (void)sigaltstack(&stack, NULL);
}

/*
 * A separate stack for signal handlers. While some f32 products of oneDNN run,
 * the stack pointer points into the heap (oneDNN's issue 4845, fixed in 2026),
 * and a handler that runs there destroys memory. Therefore every handler of
 * Lockstep is installed with SA_ONSTACK, after a call of this function. It also
 * serves when the usual stack is full.
 */
#ifndef LS_BASE_SIGNAL_STACK_H
#define LS_BASE_SIGNAL_STACK_H

/*
 * Gives the calling thread such a stack, unless it has one: the kernel chooses
 * the main thread for a signal that is sent to the process. There is one for a
 * process; other threads that ask after the first go without.
 */
void lsi_use_signal_stack(void);

#endif

/*
 * The traces of a crash: the addresses of the functions that the thread was in,
 * and the memory map. The launcher makes a backtrace of them
 * (launch/backtrace.h). The process itself only writes numbers, since nothing
 * else is safe then.
 *
 * LOCKSTEP_CRASH_FILE asks for it, as `lockstep run` does: the file is made by
 * the first crash. The process then dies as it would have died, of the same
 * signal, with the same core dump.
 */
#ifndef LS_OBSERVE_CRASH_H
#define LS_OBSERVE_CRASH_H

/*
 * Takes SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT, each unless the program
 * handles it itself, if the variable is set. Of the thread that calls it a
 * stack that is full does not matter. Calling it again does nothing.
 */
void lsi_watch_crashes(void);

#endif

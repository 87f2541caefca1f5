/*
 * The traces of a crash: the addresses of the functions that the thread was in,
 * and the memory map. The launcher makes a backtrace of them
 * (launch/backtrace.h). The process itself only writes numbers, since nothing
 * else is safe then.
 *
 * LOCKSTEP_CRASH_FILE asks for it, as `lockstep run` does: the file is made by
 * the first crash. The process then dies as it would have died, of the same
 * signal, with the same core dump.
 *
 * Memory that a process must not touch may have a name (lsi_crash_place). The
 * file then has it; without a file it is a line on stderr.
 */
#ifndef LS_OBSERVE_CRASH_H
#define LS_OBSERVE_CRASH_H

/*
 * Takes SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT, each unless the program
 * handles it itself, if the variable is set. Of the thread that calls it a
 * stack that is full does not matter. Calling it again does nothing.
 */
void lsi_watch_crashes(void);

/* Memory that nobody may access at times. */
typedef struct lsi_crash_place {
    /* Returns the name of what is at an address, or NULL. In a signal handler.
     */
    const char *(*name_at)(const void *context, const void *address);
    const void *context;
    int rank;
    const char *reason; /* and how to access it */
} lsi_crash_place;

/*
 * Reports name it from now on, until lsi_crash_place_remove, which does nothing
 * for others. At most 16 places have names at a time.
 */
void lsi_crash_place_add(const lsi_crash_place *place);
void lsi_crash_place_remove(const lsi_crash_place *place);

#endif

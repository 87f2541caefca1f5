/*
 * Threads inside one rank (OpenMP).
 */
#ifndef LS_ARRAY_COMPUTE_THREADS_H
#define LS_ARRAY_COMPUTE_THREADS_H

#include <stddef.h>

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * As ls_set_threads and ls_threads, with a number that is clamped to the
 * possible range.
 */
void lsi_threads_set(int threads);
int lsi_threads(void);

/*
 * Sets OpenMP's own number for the calling thread, around a call of a library
 * that uses OpenMP itself. Returns the number to set again afterwards.
 */
int lsi_threads_lend(int threads);

/*
 * Whether the calling thread can start lsi_threads() threads; to be checked
 * before code that uses OpenMP itself and would end the process. The loops
 * below check, and otherwise do all the work on the calling thread.
 */
ls_status lsi_threads_ask(void);

/*
 * Calls fn(context, begin, end) on disjoint ranges that cover 0..n-1, on up to
 * lsi_threads() threads, with at least `grain` elements a call (except the
 * last). Boundaries depend on n, grain and the thread count only and are
 * multiples of 16. With one range it is a plain call.
 */
typedef void (*lsi_range_fn)(void *context, size_t begin, size_t end);
void lsi_parallel_for(size_t n, size_t grain, lsi_range_fn fn, void *context);

/*
 * Calls fn(context, task, worker) once for each task 0..n-1, in order of the
 * task as threads become free, on up to lsi_threads() threads. Two calls at
 * once never have the same worker, 0..lsi_threads()-1, so it can be an index of
 * scratch memory. The assignment of tasks to workers differs from run to run.
 */
typedef void (*lsi_task_fn)(void *context, size_t task, int worker);
void lsi_parallel_tasks(size_t n, lsi_task_fn fn, void *context);

/*
 * Calls fn(context, worker, workers) once on each of up to lsi_threads()
 * threads, all at once: they may wait for each other.
 */
typedef void (*lsi_team_fn)(void *context, int worker, int workers);
void lsi_parallel_team(lsi_team_fn fn, void *context);

#ifdef __cplusplus
}
#endif

#endif

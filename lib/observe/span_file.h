/*
 * The files to which a process writes its spans, and when. A trace that nears
 * its limit has several files, STEM.lstrace, STEM.1.lstrace, STEM.2.lstrace,
 * ..., of which the oldest ones are removed; each is complete in itself, with
 * its own header, names and clocks.
 *
 * In the form of chunks.h. The header also has the kinds of spans with the
 * meaning of their numbers, and the number of the file in its trace ("file").
 * It has the level of instructions ("isa"), and the number of threads that
 * compute products ("threads"; 0: none did so far). The header is written again
 * when this number changes. For the earlier files it has the number of spans,
 * and the first and last step (0: none). An E chunk has spans of a thread: its
 * number, how many follow; each is a byte (the kind, + 16 with bytes, + 32 with
 * work, + 64 with an id), the name, the beginning less the end of the one
 * before (zigzag; the first less 0), the length, and the numbers that the byte
 * says.
 */
#ifndef LS_OBSERVE_SPAN_FILE_H
#define LS_OBSERVE_SPAN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"
#include "observe/spans.h"

/* Bytes of a trace by default, and the least that can be asked for. */
#define LSI_SPAN_LIMIT       ((uint64_t)1 << 30)
#define LSI_SPAN_LEAST_LIMIT ((uint64_t)4 << 20)

enum { LSI_SPAN_HAS_BYTES = 16, LSI_SPAN_HAS_WORK = 32, LSI_SPAN_HAS_ID = 64 };

/*
 * Turns tracing on, into files in this folder, which is made if it is not
 * there, of the steps chosen below. LS_ERR_IO if it cannot be written to,
 * LS_ERR_ARGUMENT if LOCKSTEP_TRACE_LIMIT is not a size. Does nothing if it is
 * on, or for NULL.
 */
ls_status lsi_span_start(const char *name);

/* Writes the rest and turns tracing off. Later spans are dropped. */
void lsi_span_stop(void);

/*
 * Limits traces that begin later to the steps of "FIRST:COUNT", from 1 on
 * (--trace-steps, LOCKSTEP_TRACE_STEPS); nothing for NULL. Spans before the
 * first step count as part of it. LS_ERR_ARGUMENT names `what`, the flag or the
 * variable.
 */
ls_status lsi_span_limit_steps(const char *what, const char *text);

/* Step `number` begins. Programs without such calls have the steps below. */
void lsi_span_begin_step(uint64_t number);

/* An optimizer has made a step, which ends one of the program's. */
void lsi_span_end_optimizer_step(void);

/*
 * Sets the rank and job of this process, which name its file. The first call
 * counts.
 */
void lsi_span_set_rank(int rank_of_process, int ranks, uint64_t job_of_ranks);

/* The number of threads that compute products from now on. */
void lsi_span_set_threads(int number);

/* In a process that has just been forked: it writes no file of its parent.
 * Under the lock. */
void lsi_span_forget(void);

/*
 * Writes spans of a thread, under the lock. False if tracing is over, by
 * lsi_span_stop or because the file cannot be written.
 */
bool lsi_span_write(uint32_t thread, const char *thread_name,
                    const lsi_span *spans, size_t n);

#endif

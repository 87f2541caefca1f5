/*
 * The files of one trace: STEM.lstrace, STEM.1.lstrace, STEM.2.lstrace, ...
 * Each is complete in itself (span_file.h). If there would be more than the
 * limit, the oldest ones are removed. All of it under the lock of the recorder.
 */
#ifndef LS_OBSERVE_SPAN_SEGMENTS_H
#define LS_OBSERVE_SPAN_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "observe/chunks.h"

/* Bytes of a trace by default, and the least that can be asked for. */
#define LSI_SPAN_LIMIT       ((uint64_t)1 << 30)
#define LSI_SPAN_LEAST_LIMIT ((uint64_t)4 << 20)

/*
 * Begins a trace of at most `most_bytes` (0: of any size) in the folder of this
 * name; opens no file.
 */
void lsi_segments_begin(const char *name, uint64_t most_bytes);

/*
 * Opens the next file, which becomes the current one; false (errno). The first
 * one names the trace; for others `name` has no meaning. Removes what an
 * earlier run has left under these names.
 */
bool lsi_segments_open(const char *name);
bool lsi_segments_is_open(void);

/* Number of the current file, or of the next one: 0, 1, ... */
unsigned lsi_segments_number(void);

/* Path of the file that was opened last. */
const char *lsi_segments_path(void);

/*
 * The current file. Before bytes are written to it, the oldest files are
 * removed until they fit.
 */
extern lsi_chunks lsi_segments_file;

/*
 * Whether the current file should end: soon, where a step ends, or, if no step
 * ends, now.
 */
bool lsi_segments_is_full(bool step_ends);

/* Closes the current file, if one is open; false (errno): not all is stored. */
bool lsi_segments_close(void);

/* Closes it in a process that has been forked, whose parent goes on with it. */
void lsi_segments_forget(void);

#endif

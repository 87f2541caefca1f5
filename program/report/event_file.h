/*
 * A file of scalars over steps in a folder that TensorBoard shows.
 */
#ifndef LS_REPORT_EVENT_FILE_H
#define LS_REPORT_EVENT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "report/event_record.h"

typedef struct lsi_event_file lsi_event_file;

/*
 * Opens a new file in the folder, which is made if it does not exist, for a run
 * that begins after step `first`. A resumed run removes later steps from
 * earlier files, so that no step is recorded twice. Otherwise earlier files
 * stay, and TensorBoard shows the new one in their place. *out is the caller's.
 */
ls_status lsi_event_file_open(lsi_event_file **out, const char *folder,
                              int64_t first, bool goes_on);

/* Adds scalars in memory; every few seconds they are written. */
ls_status lsi_event_file_add(lsi_event_file *file, int64_t step,
                             const lsi_scalar *scalars, size_t n);

/* Writes the scalars that are still in memory. */
ls_status lsi_event_file_flush(lsi_event_file *file);

/* Flushes, too, but reports no error. Accepts NULL. */
void lsi_event_file_close(lsi_event_file *file);

#endif

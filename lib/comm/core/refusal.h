/*
 * What a rank that cannot take part in a collective says in its cell.
 */
#ifndef LS_COMM_CORE_REFUSAL_H
#define LS_COMM_CORE_REFUSAL_H

#include "comm/state/state.h"

enum { LSI_REASON_BYTES = 512 };

/* Writes the reason into this rank's cell. */
void lsi_publish_refusal(const lsi_collective *op, lsi_cell *cell);

/* Says who refused and why, once all have arrived. */
ls_status lsi_report_refusal(const lsi_collective *op);

#endif

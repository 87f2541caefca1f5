/*
 * Pages of weights that this process must not touch, because the node does not
 * have them: a pointer that outlives its use ends the process instead of
 * reading zeros.
 *
 * A page is open while at least one range that touches it is in use. All other
 * pages are PROT_NONE. Neighbours of one kind are one mapping of the kernel, so
 * the number of mappings (vm.max_map_count) grows by two for each run of pages
 * that are open.
 */
#ifndef LS_MODEL_AUTOGRAD_PARAMS_PAGE_GUARD_H
#define LS_MODEL_AUTOGRAD_PARAMS_PAGE_GUARD_H

#include <stddef.h>
#include <stdint.h>

#include "base/partition.h"
#include "lockstep/status.h"

typedef struct lsi_page_guard {
    unsigned char *data;
    size_t size;     /* bytes of an element */
    uintptr_t first; /* address of the first page that is inside as a whole */
    size_t page, n;  /* bytes of a page, and number of pages */
    uint16_t *users; /* [n] ranges in use that touch a page */
} lsi_page_guard;

/*
 * Guards `count` elements, of which the `kept` ranges stay open for ever. The
 * memory must be mapped until lsi_page_guard_free, which leaves pages as they
 * are.
 */
ls_status lsi_page_guard_new(lsi_page_guard *guard, void *data, size_t size,
                             size_t count, const lsi_range *kept, size_t n);
void lsi_page_guard_free(lsi_page_guard *guard);

/* The elements' pages can be read and written until the same range is closed.
 */
ls_status lsi_page_guard_open(lsi_page_guard *guard, lsi_range elements);
void lsi_page_guard_close(lsi_page_guard *guard, lsi_range elements);

#endif

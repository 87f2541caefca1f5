/* Inside a sequence of tokens; see lockstep/data.h. */
#ifndef LS_DATA_TOKENS_H
#define LS_DATA_TOKENS_H

#include "data/dataset.h"
#include "lockstep/data.h"

struct ls_tokens {
    lsi_records records;
    const uint8_t *first; /* in them */
    int64_t count;
    size_t width; /* bytes of a token: 1, 2, 4 */
    char name[64];
};

#endif

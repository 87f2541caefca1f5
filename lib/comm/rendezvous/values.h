/*
 * The keys and values of the store, up to a limit for all together.
 */
#ifndef LS_COMM_RENDEZVOUS_VALUES_H
#define LS_COMM_RENDEZVOUS_VALUES_H

#include "comm/rendezvous/store.h"

/* A value of 64 KiB from each of 4096 ranks. */
#define LSI_STORE_MOST_BYTES ((size_t)256 << 20)

/* Starts as zeros. */
typedef struct lsi_store_values {
    void *root; /* of tsearch */
    size_t bytes;
} lsi_store_values;

typedef struct lsi_store_value {
    const void *data;
    size_t bytes;
} lsi_store_value;

/* LS_ERR_BUDGET if the values would exceed the limit. */
ls_status lsi_store_values_set(lsi_store_values *values, const char *key,
                               const void *data, size_t bytes);

/* NULL if the key is not set; valid until the key is set again. */
const lsi_store_value *lsi_store_values_get(const lsi_store_values *values,
                                            const char *key);

void lsi_store_values_clear(lsi_store_values *values);

#endif

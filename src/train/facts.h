/*
 * What a run depends on, by name, as text: a run that goes on from a checkpoint
 * must have the facts that were saved with it.
 */
#ifndef LS_TRAIN_FACTS_H
#define LS_TRAIN_FACTS_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/checkpoint.h"

enum { LSI_MAX_FACTS = 40 };

typedef struct lsi_fact {
    const char *name; /* of the flag, as a rule */
    char value[48];
    const char *before; /* what it is in checkpoints that do not say, or NULL */
} lsi_fact;

typedef struct lsi_facts {
    size_t n;
    lsi_fact all[LSI_MAX_FACTS];
} lsi_facts;

/* Names must outlive the facts. */
void lsi_facts_text(lsi_facts *facts, const char *name, const char *value);
void lsi_facts_int(lsi_facts *facts, const char *name, int64_t value);
void lsi_facts_real(lsi_facts *facts, const char *name, double value);

/*
 * Of the last fact: checkpoints of older versions do not have it, and were made
 * with this value, which must outlive the facts.
 */
void lsi_facts_before(lsi_facts *facts, const char *value);

/* A sum over values, which others hardly have. */
void lsi_facts_digest(lsi_facts *facts, const char *name, const int64_t *values,
                      size_t n);

/* LS_ERR_ARGUMENT names the first that the checkpoint has otherwise. */
ls_status lsi_facts_check(const lsi_facts *facts,
                          const ls_checkpoint *checkpoint);

#endif

/*
 * Results of a calculation: numbers with a name, a unit, and the formula of
 * each, in the order of the calculation.
 */
#ifndef LS_PLAN_FACTS_H
#define LS_PLAN_FACTS_H

#include <stdbool.h>
#include <stddef.h>

enum { LSI_FACTS_MOST = 64 };

typedef struct lsi_fact {
    const char *part; /* part of the question, such as "a"; "" for inputs */
    const char *name; /* unique name; the name in JSON */
    double value;
    const char *unit; /* unit, or "" */
    const char *formula;
    bool whole; /* a whole number below 2^53, for which the double is exact */
} lsi_fact;

typedef struct lsi_facts {
    lsi_fact all[LSI_FACTS_MOST];
    size_t n;
} lsi_facts;

/* Appends a fact. Texts must outlive the facts. All plans fit. */
void lsi_facts_add(lsi_facts *facts, lsi_fact fact);
#define lsi_facts_whole(facts, ...)                                            \
    lsi_facts_add(facts, (lsi_fact){__VA_ARGS__, .whole = true})
#define lsi_facts_real(facts, ...)                                             \
    lsi_facts_add(facts, (lsi_fact){__VA_ARGS__, .whole = false})

/* The value of that name, which must exist. */
double lsi_facts_get(const lsi_facts *facts, const char *name);

#endif

/*
 * Names that the recorder has seen: of spans, ranges, phases, operations and
 * blocks of memory. Each is kept once, as long as the process lives. Only a new
 * one takes the lock of the recorder.
 */
#ifndef LS_OBSERVE_NAMES_H
#define LS_OBSERVE_NAMES_H

#include <stdint.h>

/* Names that a process can have; further ones are "other". */
enum { LSI_NAMES = 4096, LSI_NAME_BYTES = 96 };

/* The number of a name: 0, 1, ... Long names are cut. */
uint32_t lsi_name_number(const char *name);

/* The name with that number; NULL without one. */
const char *lsi_name_at(uint32_t number);

/* Number of names. */
uint32_t lsi_names(void);

#endif

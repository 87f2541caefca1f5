/*
 * What the numbers were measured on.
 */
#ifndef LS_REPORT_MACHINE_H
#define LS_REPORT_MACHINE_H

#include <jansson.h>

/*
 * {"cpu", "isa", "cpus", "memory_bytes", "kernel", "compiler"}; a new
 * reference, or NULL without memory.
 */
json_t *lsi_machine_json(void);

/*
 * {"lockstep": version, "command": [..], "machine": {..}}, with which every
 * file of results begins; a new reference, or NULL without memory.
 */
json_t *lsi_origin_json(int argc, const char *const *argv);

#endif

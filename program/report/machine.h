/* Description of the machine on which numbers were measured. */
#ifndef LS_REPORT_MACHINE_H
#define LS_REPORT_MACHINE_H

#include <jansson.h>

/*
 * {"cpu", "isa", "cpus", "memory_bytes", "kernel", "compiler"}; a new
 * reference, or NULL without memory.
 */
json_t *lsi_machine_json(void);

/*
 * {"lockstep": version, "command": [..], "machine": {..}}, the beginning of
 * each file of results; a new reference, or NULL without memory.
 */
json_t *lsi_origin_json(int argc, const char *const *argv);

#endif

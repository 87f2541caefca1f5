/*
 * Devices by their names: "cuda:0", "cuda:1" and so on, and "cuda" for the
 * first. What drives a kind of devices is in a module, which is loaded when
 * somebody asks for one.
 */
#ifndef LS_ARRAY_DEVICE_FIND_H
#define LS_ARRAY_DEVICE_FIND_H

#include "array/device/table.h"
#include "lockstep/status.h"

/*
 * *table, which stays for ever, and which of its devices `name` is.
 * LS_ERR_ARGUMENT for what is no name of a device; LS_ERR_UNSUPPORTED if there
 * is no such device here.
 */
ls_status lsi_device_find(const char *name, const lsi_device_table **table,
                          int *index);

typedef struct lsi_device_entry {
    char name[32]; /* "cuda:0" */
    lsi_device_facts facts;
} lsi_device_entry;

/*
 * The devices of this machine: *n of them, of which `entries` has room for
 * `room`. LS_ERR_UNSUPPORTED, and why, if there is none.
 */
ls_status lsi_device_list(lsi_device_entry *entries, int room, int *n);

#endif

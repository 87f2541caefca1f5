/*
 * A device for tests, on a machine that has none. The host may neither read nor
 * write its memory: each block is mapped without any access, and only the
 * device knows the second mapping of the same pages. A stream is a thread that
 * does one command after another and dawdles before some, so that who does not
 * wait finds old bytes.
 */
#ifndef TESTS_UNIT_DEVICE_FAKE_DEVICE_H
#define TESTS_UNIT_DEVICE_FAKE_DEVICE_H

#include "device/table.h"

/* What the next stream to be opened is like; all 0 at first. */
typedef struct fake_settings {
    size_t room;          /* bytes of memory; 0: as much as there is */
    unsigned failing;     /* fails with this command, counted from 1; 0: none */
    unsigned longest_nap; /* before a command, in microseconds */
    const char *refuses;  /* not NULL: cannot be opened, and why */
} fake_settings;

extern fake_settings fake_next;
extern const lsi_device_table fake_device;

/* Blocks of the device that was opened last. */
unsigned fake_blocks(void);

#endif

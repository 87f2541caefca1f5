/*
 * A device for tests, on a machine that has none. The host may neither read nor
 * write its memory: this is mapped without any access but while a stream works
 * on it. A stream is a thread that does one command after another and dawdles
 * before each, so that who does not wait finds old bytes. Operations are those
 * of the host, done by that thread: results are equal to the bit where the host
 * computes in one order too.
 */
#ifndef TESTS_UNIT_DEVICE_FAKE_DEVICE_H
#define TESTS_UNIT_DEVICE_FAKE_DEVICE_H

#include "array/device/table.h"

/* What the next device to be opened is like; all 0 at first. */
typedef struct fake_settings {
    size_t room;          /* bytes of memory; 0: a GiB */
    unsigned failing;     /* fails with this command, counted from 1; 0: none */
    unsigned longest_nap; /* before a command, in microseconds */
    const char *refuses;  /* not NULL: cannot be opened, and why */
} fake_settings;

extern fake_settings fake_next;
extern const lsi_device_table fake_device;

/* fake_operations.c: of the host, on a stream. */
extern const struct lsi_operations fake_operations;

/* For those: fn(arguments) behind what the stream has been given; it returns 0,
 * or -1 with the thread's last error. The arguments are freed after it. */
int fake_give(lsi_device_stream *stream, int (*fn)(void *arguments),
              void *arguments);

/* Where tests read and write what lies at an address of the device that was
 * opened last; NULL if it is not there. */
void *device_data(const void *address);

/* Blocks of the device that was opened last. */
unsigned fake_blocks(void);

#endif

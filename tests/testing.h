/*
 * The header that every test program includes: cmocka, the headers that must
 * precede it, and checks in this project's terms.
 */
#ifndef TESTS_TESTING_H
#define TESTS_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lockstep/tensor.h"

#define TEST_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The call succeeds; if not, its error is shown. */
#define assert_ok(call)                                                        \
    do {                                                                       \
        const ls_status got_ = (call);                                         \
        if (got_ != LS_OK)                                                     \
            fail_msg("%s: %s: %s", #call, ls_status_name(got_),                \
                     ls_last_error());                                         \
    } while (0)

/* The call fails with `status`, and its error contains `part`. */
#define assert_error(call, status, part)                                       \
    do {                                                                       \
        const ls_status got_ = (call);                                         \
        if (got_ != (status))                                                  \
            fail_msg("%s: %s instead of %s (%s)", #call, ls_status_name(got_), \
                     ls_status_name(status), ls_last_error());                 \
        if (strstr(ls_last_error(), (part)) == NULL)                           \
            fail_msg("%s: no \"%s\" in \"%s\"", #call, (part),                 \
                     ls_last_error());                                         \
    } while (0)

/* The memory of a tensor, also of one that is only read. */
static inline void *tensor_data(const ls_tensor *tensor)
{
    const union {
        const ls_tensor *constant;
        ls_tensor *tensor;
    } it = {tensor};
    void *data = NULL;
    assert_ok(ls_tensor_map(it.tensor, &data));
    return data;
}

#endif

/*
 * Why a tensor is NULL. An operation on a tape that fails returns NULL. The
 * next function that gets this NULL reports the tape's error, which helps the
 * user more than the report of a NULL argument.
 */
#include <stdio.h>

#include "base/error.h"
#include "model/tensor/tensor.h"

static _Thread_local struct {
    const void *tape; /* NULL: none that this thread uses has failed */
    ls_status status;
    char message[512];
} blamed;

void lsi_tensor_blame(const void *tape, ls_status status, const char *message)
{
    blamed.tape = tape;
    blamed.status = status;
    snprintf(blamed.message, sizeof blamed.message, "%s", message);
}

void lsi_tensor_forgive(const void *tape)
{
    if (blamed.tape == tape)
        blamed.tape = NULL;
}

ls_status lsi_tensor_missing(const char *function, const char *argument)
{
    if (blamed.tape != NULL)
        return lsi_fail(blamed.status, "%s", blamed.message);
    return lsi_fail(LS_ERR_ARGUMENT, "%s: %s is NULL", function, argument);
}

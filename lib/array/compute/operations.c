/* Each operation: here or on a device; see operations.h. */
#include "array/compute/operations.h"

#define DO(name, where, ...)                                                   \
    void lsi_##name(LSI_EACH(LSI_PARAMETER_, __VA_ARGS__))                     \
    {                                                                          \
        lsi_device *const device = lsi_device_of(where);                       \
        if (device == NULL)                                                    \
            lsi_host_##name(LSI_EACH(LSI_ARGUMENT_, __VA_ARGS__));             \
        else                                                                   \
            lsi_device_keep(                                                   \
                device, LSI_ON_DEVICE(device, name,                            \
                                      LSI_EACH(LSI_ARGUMENT_, __VA_ARGS__)));  \
    }
#define TRY(name, where, ...)                                                  \
    ls_status lsi_##name(LSI_EACH(LSI_PARAMETER_, __VA_ARGS__))                \
    {                                                                          \
        lsi_device *const device = lsi_device_of(where);                       \
        if (device == NULL)                                                    \
            return lsi_host_##name(LSI_EACH(LSI_ARGUMENT_, __VA_ARGS__));      \
        return LSI_ON_DEVICE(device, name,                                     \
                             LSI_EACH(LSI_ARGUMENT_, __VA_ARGS__));            \
    }
#define PLAN(name, where, ...)
#include "array/compute/operations.def"

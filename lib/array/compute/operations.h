/*
 * Where an operation on whole arrays is computed: here, or by the device in
 * whose memory its arrays lie. Callers of lsi_array_add and the like need not
 * know; each looks up its array and calls lsi_host_array_add or what the
 * device's module has for it (operations.def). As long as no device is open
 * this costs a comparison.
 *
 * Inside lib/array/compute operations call each other by their host names: what
 * runs here stays here.
 */
#ifndef LS_ARRAY_COMPUTE_OPERATIONS_H
#define LS_ARRAY_COMPUTE_OPERATIONS_H

#include "array/compute/array.h"
#include "array/compute/attention/attention.h"
#include "array/compute/axes.h"
#include "array/compute/batch_norm.h"
#include "array/compute/broadcast.h"
#include "array/compute/copy.h"
#include "array/compute/dense.h"
#include "array/compute/embedding.h"
#include "array/compute/functions.h"
#include "array/compute/losses.h"
#include "array/compute/mixed.h"
#include "array/compute/optimizers.h"
#include "array/compute/plane_stats.h"
#include "array/compute/planes.h"
#include "array/compute/rope.h"
#include "array/compute/row_norm.h"
#include "array/compute/row_products.h"
#include "array/compute/softmax.h"
#include "array/device/device.h"

/*
 * LSI_EACH(AS_, OUT(float, y), VALUE(size_t, n)) is AS_OUT(float, y),
 * AS_VALUE(size_t, n): a row's parameters, each as one of these macros has it.
 */
#define LSI_EACH(as, ...)                                                      \
    LSI_EACH_OF(__VA_ARGS__, LSI_EACH_6, LSI_EACH_5, LSI_EACH_4, LSI_EACH_3,   \
                LSI_EACH_2, LSI_EACH_1)                                        \
    (as, __VA_ARGS__)
#define LSI_EACH_OF(a, b, c, d, e, f, each, ...) each
#define LSI_EACH_1(as, a)                        as##a
#define LSI_EACH_2(as, a, ...)                   as##a, LSI_EACH_1(as, __VA_ARGS__)
#define LSI_EACH_3(as, a, ...)                   as##a, LSI_EACH_2(as, __VA_ARGS__)
#define LSI_EACH_4(as, a, ...)                   as##a, LSI_EACH_3(as, __VA_ARGS__)
#define LSI_EACH_5(as, a, ...)                   as##a, LSI_EACH_4(as, __VA_ARGS__)
#define LSI_EACH_6(as, a, ...)                   as##a, LSI_EACH_5(as, __VA_ARGS__)

#define LSI_PARAMETER_OUT(type, name)           type *name
#define LSI_PARAMETER_IN(type, name)            const type *name
#define LSI_PARAMETER_VALUE(type, name)         type name
#define LSI_PARAMETER_FACTS(type, name)         const type *name
#define LSI_PARAMETER_LIST(type, name, n, room) type const *name

#define LSI_ARGUMENT_OUT(type, name)           name
#define LSI_ARGUMENT_IN(type, name)            name
#define LSI_ARGUMENT_VALUE(type, name)         name
#define LSI_ARGUMENT_FACTS(type, name)         name
#define LSI_ARGUMENT_LIST(type, name, n, room) name

/* ---- on the host --------------------------------------------------------- */

#define DO(name, where, ...)                                                   \
    void lsi_host_##name(LSI_EACH(LSI_PARAMETER_, __VA_ARGS__));
#define TRY(name, where, ...)                                                  \
    ls_status lsi_host_##name(LSI_EACH(LSI_PARAMETER_, __VA_ARGS__));
#define PLAN TRY
#include "array/compute/operations.def"
#undef DO
#undef TRY
#undef PLAN

/* ---- on a device --------------------------------------------------------- */

/*
 * What a module fills in; NULL for what it cannot do. Each is given to the
 * stream and returns at once, 0 or -1 as the functions of device/table.h. What
 * is not an array (facts, lists) has been read by then. What an operation finds
 * in the data, such as an index that is out of range, fails later.
 */
typedef struct lsi_operations {
#define DO(name, where, ...)                                                   \
    int (*name)(lsi_device_stream *, LSI_EACH(LSI_PARAMETER_, __VA_ARGS__));
#define TRY  DO
#define PLAN DO
#include "array/compute/operations.def"
#undef DO
#undef TRY
#undef PLAN
} lsi_operations;

/* Gives an operation, with its parameters, to the device's stream: a status. */
#define LSI_ON_DEVICE(device, name, ...)                                       \
    (lsi_device_operations(device) == NULL ||                                  \
             lsi_device_operations(device)->name == NULL                       \
         ? lsi_device_lacks(device, #name)                                     \
         : lsi_device_did(device,                                              \
                          lsi_device_operations(device)->name(                 \
                              lsi_device_main_stream(device), __VA_ARGS__)))

#endif

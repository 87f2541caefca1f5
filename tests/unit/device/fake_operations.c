/* The operations of the fake device: those of the host, later. */
#include <stdlib.h>
#include <string.h>

#include "array/compute/operations.h"
#include "fake_device.h"

/* A row's parameters as the fields of a struct: what is not an array by value.
 */
#define FIELDS(...)                                                            \
    LSI_EACH_OF(__VA_ARGS__, FIELDS_6, FIELDS_5, FIELDS_4, FIELDS_3, FIELDS_2, \
                FIELDS_1)                                                      \
    (__VA_ARGS__)
#define FIELDS_1(a) FIELD_##a;
#define FIELDS_2(a, ...)                                                       \
    FIELD_##a;                                                                 \
    FIELDS_1(__VA_ARGS__)
#define FIELDS_3(a, ...)                                                       \
    FIELD_##a;                                                                 \
    FIELDS_2(__VA_ARGS__)
#define FIELDS_4(a, ...)                                                       \
    FIELD_##a;                                                                 \
    FIELDS_3(__VA_ARGS__)
#define FIELDS_5(a, ...)                                                       \
    FIELD_##a;                                                                 \
    FIELDS_4(__VA_ARGS__)
#define FIELDS_6(a, ...)                                                       \
    FIELD_##a;                                                                 \
    FIELDS_5(__VA_ARGS__)

#define FIELD_OUT(type, name)           type *name
#define FIELD_IN(type, name)            const type *name
#define FIELD_VALUE(type, name)         type name
#define FIELD_FACTS(type, name)         type name
#define FIELD_LIST(type, name, n, room) type name[room]

#define KEEP_OUT(type, name)   kept->name = name
#define KEEP_IN(type, name)    kept->name = name
#define KEEP_VALUE(type, name) kept->name = name
#define KEEP_FACTS(type, name) kept->name = *name
#define KEEP_LIST(type, name, n, room)                                         \
    memcpy(kept->name, name, (size_t)(n) * sizeof(type))

#define KEPT_OUT(type, name)           kept->name
#define KEPT_IN(type, name)            kept->name
#define KEPT_VALUE(type, name)         kept->name
#define KEPT_FACTS(type, name)         &kept->name
#define KEPT_LIST(type, name, n, room) kept->name

#define ROW(name, result, ...)                                                 \
    struct name##_call {                                                       \
        FIELDS(__VA_ARGS__)                                                    \
    };                                                                         \
    static int do_##name(void *arguments)                                      \
    {                                                                          \
        struct name##_call *kept = arguments;                                  \
        return result(lsi_host_##name(LSI_EACH(KEPT_, __VA_ARGS__)));          \
    }                                                                          \
    static int fake_##name(lsi_device_stream *stream,                          \
                           LSI_EACH(LSI_PARAMETER_, __VA_ARGS__))              \
    {                                                                          \
        struct name##_call *kept = calloc(1, sizeof(*kept));                   \
        if (kept == NULL)                                                      \
            return -1;                                                         \
        LSI_EACH(KEEP_, __VA_ARGS__);                                          \
        return fake_give(stream, do_##name, kept);                             \
    }
#define ALWAYS(call) ((call), 0)
#define IF_OK(call)  ((call) == LS_OK ? 0 : -1)

#define DO(name, where, ...)  ROW(name, ALWAYS, __VA_ARGS__)
#define TRY(name, where, ...) ROW(name, IF_OK, __VA_ARGS__)
#define PLAN                  TRY
#include "array/compute/operations.def"
#undef DO
#undef TRY
#undef PLAN

const lsi_operations fake_operations = {
#define DO(name, where, ...) .name = fake_##name,
#define TRY                  DO
#define PLAN                 DO
#include "array/compute/operations.def"
};

/*
 * A stand-in that lets callers of jansson link on machines without a jansson
 * for this processor. The tests that are run there read and write no JSON.
 */
#include <stdio.h>
#include <stdlib.h>

#define FUNCTION(name)                                                         \
    void json_##name(void);                                                    \
    void json_##name(void)                                                     \
    {                                                                          \
        fputs("json_" #name " was called, but there is no jansson\n", stderr); \
        abort();                                                               \
    }

FUNCTION(array)
FUNCTION(array_append_new)
FUNCTION(array_extend)
FUNCTION(array_get)
FUNCTION(array_size)
FUNCTION(deep_copy)
FUNCTION(delete)
FUNCTION(dumpb)
FUNCTION(dumps)
FUNCTION(equal)
FUNCTION(false)
FUNCTION(integer)
FUNCTION(integer_value)
FUNCTION(loadb)
FUNCTION(null)
FUNCTION(number_value)
FUNCTION(object)
FUNCTION(object_del)
FUNCTION(object_get)
FUNCTION(object_getn)
FUNCTION(object_iter)
FUNCTION(object_iter_key)
FUNCTION(object_iter_key_len)
FUNCTION(object_iter_next)
FUNCTION(object_iter_value)
FUNCTION(object_key_to_iter)
FUNCTION(object_set_new)
FUNCTION(object_setn_new)
FUNCTION(object_size)
FUNCTION(object_update)
FUNCTION(pack)
FUNCTION(real)
FUNCTION(real_value)
FUNCTION(string)
FUNCTION(string_length)
FUNCTION(string_value)
FUNCTION(stringn)
FUNCTION(true)
FUNCTION(unpack)
FUNCTION(unpack_ex)

/*
 * The enumerations of the public headers and the lists of their rows: the same
 * names with the same values. An enumerator without a row is a warning here
 * (-Wswitch), a row without an enumerator an error.
 */
#include "base/lists.h"
#include "lockstep/lockstep.h"
#include "model/nn/transformer_lists.h"
#include "model/parallel/strategy.h"
#include "testing.h"

/* The text of a value by its list, or NULL. Enumerations have four bytes. */
#define TEXT_OF(type, list)                                                    \
    static const char *text_of_##type(type value)                              \
    {                                                                          \
        switch (value) {                                                       \
            list(X)                                                            \
        }                                                                      \
        return NULL;                                                           \
    }                                                                          \
    _Static_assert(sizeof(type) == 4, #type)

#define X(NAME, value, text)                                                   \
    case LS_##NAME: {                                                          \
        _Static_assert(LS_##NAME == (value), #NAME);                           \
        return text;                                                           \
    }
TEXT_OF(ls_status, LSI_STATUS_LIST);
#undef X

#define X(NAME, value, text)                                                   \
    case LS_REDUCE_##NAME: {                                                   \
        _Static_assert(LS_REDUCE_##NAME == (value), #NAME);                    \
        return text;                                                           \
    }
TEXT_OF(ls_reduce_op, LSI_REDUCE_OP_LIST);
#undef X

#define X(NAME, value, text, size)                                             \
    case LS_##NAME: {                                                          \
        _Static_assert(LS_##NAME == (value), #NAME);                           \
        return text;                                                           \
    }
TEXT_OF(ls_dtype, LSI_DTYPE_LIST);
#undef X

#define X(NAME, value, text)                                                   \
    case LS_MEMORY_##NAME: {                                                   \
        _Static_assert(LS_MEMORY_##NAME == (value), #NAME);                    \
        return text;                                                           \
    }
TEXT_OF(ls_memory_tag, LSI_MEMORY_TAG_LIST);
#undef X

#define X(NAME, value, text)                                                   \
    case LS_DDP_##NAME: {                                                      \
        _Static_assert(LS_DDP_##NAME == (value), #NAME);                       \
        return text;                                                           \
    }
#define STRATEGIES_AND_DEFAULT(X)                                              \
    LSI_DDP_STRATEGY_LIST(X)                                                   \
    X(DEFAULT, 0, "unknown")
TEXT_OF(ls_ddp_strategy, STRATEGIES_AND_DEFAULT);
#undef X

#define X(NAME, value, text)                                                   \
    case LS_TRANSFORMER_##NAME: {                                              \
        _Static_assert(LS_TRANSFORMER_##NAME == (value), #NAME);               \
        return text;                                                           \
    }
TEXT_OF(ls_transformer_kind, LSI_TRANSFORMER_KIND_LIST);
#undef X

#define X(NAME, value, text)                                                   \
    case LS_ROPE_SCALING_##NAME: {                                             \
        _Static_assert(LS_ROPE_SCALING_##NAME == (value), #NAME);              \
        return text;                                                           \
    }
TEXT_OF(ls_rope_scaling_kind, LSI_ROPE_SCALING_LIST);
#undef X

/* Each value from 0 on has a row, of which there are as many as is said. */
#define CHECK_COUNT(type, count)                                               \
    do {                                                                       \
        for (int i_ = 0; i_ < (count); i_++)                                   \
            assert_non_null(text_of_##type((type)i_));                         \
        assert_null(text_of_##type((type)(count)));                            \
    } while (0)

static void counts_are_those_of_the_rows(void **state)
{
    (void)state;
    CHECK_COUNT(ls_dtype, LS_DTYPE_COUNT);
    CHECK_COUNT(ls_reduce_op, LS_REDUCE_OP_COUNT);
    CHECK_COUNT(ls_memory_tag, LS_MEMORY_TAG_COUNT);
    CHECK_COUNT(ls_ddp_strategy, LS_DDP_STRATEGY_COUNT + 1); /* and default */
    CHECK_COUNT(ls_transformer_kind, LS_TRANSFORMER_KIND_COUNT);
    CHECK_COUNT(ls_rope_scaling_kind, LS_ROPE_SCALING_COUNT);
}

/* The library's text is that of the row. */
#define CHECK_NAMES(type, first, count)                                        \
    for (int i = (first); i < (count); i++)                                    \
    assert_string_equal(type##_name((type)i), text_of_##type((type)i))

static void names_are_those_of_the_rows(void **state)
{
    (void)state;
    CHECK_NAMES(ls_dtype, 0, LS_DTYPE_COUNT);
    CHECK_NAMES(ls_reduce_op, 0, LS_REDUCE_OP_COUNT);
    CHECK_NAMES(ls_memory_tag, 0, LS_MEMORY_TAG_COUNT);
    CHECK_NAMES(ls_ddp_strategy, 1, LS_DDP_STRATEGY_COUNT + 1);
    for (int i = LS_ERR_CORRUPT; i <= LS_IN_PROGRESS; i++)
        assert_string_equal(ls_status_text((ls_status)i),
                            text_of_ls_status((ls_status)i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_the_rows),
        cmocka_unit_test(names_are_those_of_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

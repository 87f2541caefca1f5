/* A LOCKSTEP_ISA that is none: whatever a program calls first refuses it. */
#include <stdlib.h>

#include "lockstep/lockstep.h"
#include "testing.h"

static const char message[] =
    "LOCKSTEP_ISA: unknown instruction level 'sse9'; choose one of: ref ";

static void every_first_call_refuses(void **state)
{
    const int64_t shape[] = {1};
    const ls_attention_shape s = {
        .batch = 1, .heads = 1, .queries = 1, .keys = 1, .d = 1};
    float a[9] = {0};
    size_t bytes;
    ls_group *group = NULL;
    ls_tensor *tensor = NULL;
    ls_params *params = NULL;
    ls_tape *tape = NULL;
    ls_dataset *dataset = NULL;
    (void)state;
    assert_error(ls_group_from_env(&group), LS_ERR_ARGUMENT, message);
    assert_error(ls_group_open_threads(&group, 1), LS_ERR_ARGUMENT, message);
    assert_error(ls_tensor_new(&tensor, LS_F32, 1, shape), LS_ERR_ARGUMENT,
                 message);
    assert_error(ls_tensor_zeros(&tensor, LS_F32, 1, shape), LS_ERR_ARGUMENT,
                 message);
    assert_error(ls_tensor_wrap(&tensor, a, LS_F32, 1, shape, NULL),
                 LS_ERR_ARGUMENT, message);
    assert_error(ls_params_new(&params), LS_ERR_ARGUMENT, message);
    assert_error(ls_tape_new(&tape), LS_ERR_ARGUMENT, message);
    assert_error(ls_dataset_new_cifar100(&dataset, "/tmp", LS_SUBSET_TRAIN),
                 LS_ERR_ARGUMENT, message);
    assert_error(ls_dataset_new_synthetic(&dataset, 1, 1, LS_SUBSET_TRAIN),
                 LS_ERR_ARGUMENT, message);
    assert_error(ls_attention_saved_bytes(&s, LS_ATTENTION_FLASH, &bytes),
                 LS_ERR_ARGUMENT, message);
    assert_error(ls_attention_forward(&s, LS_ATTENTION_FLASH, a, a + 1, a + 2,
                                      a + 3, a + 4),
                 LS_ERR_ARGUMENT, message);
    assert_error(ls_attention_backward(&s, LS_ATTENTION_FLASH, a, a + 1, a + 2,
                                       a + 3, a + 4, a + 5, a + 6, a + 7,
                                       a + 8),
                 LS_ERR_ARGUMENT, message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_first_call_refuses),
    };
    setenv("LOCKSTEP_ISA", "sse9", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

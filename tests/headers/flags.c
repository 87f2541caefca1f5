/* Flags are joined by | in C and in C++, without a cast. */
#include "lockstep/lockstep.h"

ls_layer_flags layer_flags = LS_LAYER_NO_BIAS | LS_LAYER_NO_AFFINE;
ls_tokenizer_flags tokenizer_flags = LS_TOKENIZER_PLAIN | LS_TOKENIZER_SPECIAL;

ls_status add_layers(ls_params *params);
ls_status add_layers(ls_params *params)
{
    ls_linear_layer linear;
    return ls_linear_layer_init(&linear, params, "linear", 1, 1,
                                LS_LAYER_DEFAULT | LS_LAYER_NO_BIAS);
}

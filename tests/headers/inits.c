/* Every LS_..._INIT is an initializer of C and of C++. */
#include "lockstep/lockstep.h"

ls_adamw_options adamw = LS_ADAMW_OPTIONS_INIT;
ls_array_options arrays = LS_ARRAY_OPTIONS_INIT;
ls_attention_options attention = LS_ATTENTION_OPTIONS_INIT;
ls_batch_norm_args batch_norm = LS_BATCH_NORM_ARGS_INIT;
ls_conv2d_options conv2d = LS_CONV2D_OPTIONS_INIT;
ls_cross_entropy_options cross_entropy = LS_CROSS_ENTROPY_OPTIONS_INIT;
ls_csv_options csv = LS_CSV_OPTIONS_INIT;
ls_ddp_options ddp = LS_DDP_OPTIONS_INIT;
ls_image_net_options image_net = LS_IMAGE_NET_OPTIONS_INIT;
ls_image_options images = LS_IMAGE_OPTIONS_INIT;
ls_lion_options lion = LS_LION_OPTIONS_INIT;
ls_loader_options loader = LS_LOADER_OPTIONS_INIT;
ls_pool2d_options pool2d = LS_POOL2D_OPTIONS_INIT;
ls_sgd_options sgd = LS_SGD_OPTIONS_INIT;
ls_sync_bn_options sync_bn = LS_SYNC_BN_OPTIONS_INIT;
ls_tokenizer_training training = LS_TOKENIZER_TRAINING_INIT;
ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
ls_wrap_options wrap = LS_WRAP_OPTIONS_INIT;

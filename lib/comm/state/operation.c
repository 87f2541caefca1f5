#include "comm/state/operation.h"

const lsi_operation_row lsi_operation_rows[LSI_OP_COUNT + 1] = {
#define X(name, text, kind, sends, receives, root, count)                      \
    {(text),                                                                   \
     LSI_KIND_##kind,                                                          \
     LSI_EXTENT_##sends,                                                       \
     LSI_EXTENT_##receives,                                                    \
     LSI_ROOT_##root,                                                          \
     (count)},
#include "comm/state/operations.def"
#undef X
    {"unknown", LSI_KIND_INTERNAL, LSI_EXTENT_NOTHING, LSI_EXTENT_NOTHING,
     LSI_ROOT_NOBODY, "count"}};

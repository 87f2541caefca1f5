"""Names of reductions and element types, declared for type checkers and editors."""

from typing import Literal

# How a collective combines the arrays of the ranks, in the order of ls_reduce_op.
ReduceOp = Literal["sum", "avg", "min", "max", "prod", "band", "bor", "bxor"]

# Types of elements that can be sent.
DTypeName = Literal["float32", "float64", "float16", "int8", "uint8", "int32",
                    "int64", "bool"]

#!/usr/bin/env python3
"""Tensors of the C library as arrays of NumPy, and the other way round, by DLPack.

LOCKSTEP_LIBRARY is liblockstep. NumPy's side is public; the library's functions are
called by ctypes, as a binding would.
"""
import ctypes
import os
import sys
import unittest
import weakref

try:
    import numpy as np
except ModuleNotFoundError:
    print("skipped: no module numpy")
    sys.exit(77)
if np.lib.NumpyVersion(np.__version__) < "2.1.0":
    print(f"skipped: NumPy {np.__version__} has no DLPack 1.x")
    sys.exit(77)

DTYPES = {"float32": 0, "float16": 2, "uint8": 5, "int32": 6, "int64": 7}
NAME = b"dltensor_versioned"
POINTER = ctypes.c_void_p

library = ctypes.CDLL(os.environ["LOCKSTEP_LIBRARY"])
library.ls_last_error.restype = ctypes.c_char_p
for function in ("ls_tensor_shape", "ls_tensor_strides"):
    getattr(library, function).restype = ctypes.POINTER(ctypes.c_int64)
    getattr(library, function).argtypes = [POINTER]

python = ctypes.pythonapi
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [POINTER, ctypes.c_char_p, POINTER]
python.PyCapsule_GetPointer.restype = POINTER
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, POINTER]
USED = ctypes.create_string_buffer(b"used_dltensor_versioned")


def check(status):
    if status != 0:
        raise RuntimeError(library.ls_last_error().decode())


class Tensor:
    """One reference to an ls_tensor."""

    def __init__(self, pointer):
        self.pointer = pointer

    def __del__(self):
        library.ls_tensor_free(ctypes.byref(self.pointer))

    @classmethod
    def zeros(cls, dtype, *shape):
        pointer, extents = POINTER(), (ctypes.c_int64 * len(shape))(*shape)
        check(library.ls_tensor_zeros(ctypes.byref(pointer), DTYPES[dtype],
                                      len(shape), extents))
        return cls(pointer)

    @classmethod
    def from_array(cls, array):
        capsule = array.__dlpack__(max_version=(1, 0))
        pointer = POINTER()
        managed = python.PyCapsule_GetPointer(capsule, NAME)
        check(library.ls_tensor_from_dlpack(ctypes.byref(pointer), POINTER(managed)))
        python.PyCapsule_SetName(capsule, ctypes.addressof(USED))
        return cls(pointer)

    def transposed(self):
        pointer = POINTER()
        check(library.ls_tensor_transpose(self.pointer, 0, 1, ctypes.byref(pointer)))
        return Tensor(pointer)

    def fill(self, value):
        check(library.ls_tensor_fill(self.pointer, ctypes.c_double(value)))

    def shape(self):
        return tuple(library.ls_tensor_shape(self.pointer)[
            :library.ls_tensor_ndim(self.pointer)])

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        managed = POINTER()
        check(library.ls_tensor_to_dlpack(self.pointer, ctypes.byref(managed)))
        return python.PyCapsule_New(managed, NAME, None)


class ToNumPy(unittest.TestCase):
    def test_memory_is_shared(self):
        for dtype in DTYPES:
            tensor = Tensor.zeros(dtype, 2, 3)
            array = np.from_dlpack(tensor)
            self.assertEqual((array.dtype.name, array.shape), (dtype, (2, 3)))
            tensor.fill(7)
            self.assertTrue((array == 7).all())
            del tensor
            array[1, 2] = 8
            self.assertEqual(array.sum(), 43)

    def test_strides(self):
        tensor = Tensor.zeros("float32", 2, 3).transposed()
        array = np.from_dlpack(tensor)
        self.assertEqual((array.shape, array.strides), ((3, 2), (4, 12)))

    def test_no_dimensions_and_no_elements(self):
        self.assertEqual(np.from_dlpack(Tensor.zeros("int64")).shape, ())
        self.assertEqual(np.from_dlpack(Tensor.zeros("uint8", 0, 3)).shape, (0, 3))


class FromNumPy(unittest.TestCase):
    def test_memory_is_shared(self):
        for dtype in DTYPES:
            array = np.arange(6, dtype=dtype).reshape(2, 3)
            tensor = Tensor.from_array(array)
            self.assertEqual(tensor.shape(), (2, 3))
            tensor.fill(5)
            self.assertTrue((array == 5).all())

    def test_strides(self):
        array = np.zeros((4, 6), dtype="float32")
        Tensor.from_array(array[1::2, ::3].T).fill(1)
        self.assertEqual(array.sum(), 4)
        self.assertEqual(array[3, 3], 1)

    def test_array_lives_as_long_as_the_tensor(self):
        class Array(np.ndarray):
            pass
        array = np.zeros(3, dtype="float32").view(Array)
        gone = weakref.ref(array)
        tensor = Tensor.from_array(array)
        del array
        self.assertIsNotNone(gone())
        del tensor
        self.assertIsNone(gone())

    def test_refusals(self):
        fixed = np.zeros(3, dtype="float32")
        fixed.flags.writeable = False
        for array, words in ((np.zeros(3), "code 2, 64 bits"),
                             (np.zeros(3, dtype=bool), "code 6, 8 bits"),
                             (np.zeros(3, dtype="float32")[::-1], "stride -1"),
                             (fixed, "read-only")):
            with self.assertRaisesRegex(RuntimeError, words):
                Tensor.from_array(array)


if __name__ == "__main__":
    unittest.main()

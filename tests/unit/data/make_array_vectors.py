#!/usr/bin/env python3
"""Writes array_vectors.h: arrays as NumPy saves them.

usage: make_array_vectors.py > array_vectors.h     (NumPy 1.20 or later)
"""
import io

import numpy as np


def npy(array, version=None):
    out = io.BytesIO()
    if version is None:
        np.save(out, array)
    else:
        np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def npz(save, **arrays):
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def write_bytes(name, data):
    print(f"static const uint8_t {name}[] = {{")
    for i in range(0, len(data), 15):
        print("    " + "".join(f"0x{b:02x}," for b in data[i:i + 15]))
    print("};\n")


def main():
    images = (np.arange(20 * 3 * 4 * 3) % 251).astype("u1").reshape(20, 3, 4, 3)
    labels = (np.arange(20) % 5).astype("i8")
    values = np.array([[0, 1, -1], [3, 100, -128]])
    files = {
        "npz_stored": npz(np.savez, images=images, labels=labels),
        "npz_deflated": npz(np.savez_compressed, x_train=images[:12],
                            y_train=labels[:12], x_test=images[12:],
                            y_test=labels[12:].astype("u1")),
        "npz_fields": npz(np.savez, a=values.astype("i2"),
                          b=np.array([True, False]), y=np.array([7, 0], "u2"),
                          c=np.array([[[1.5], [-2.5]], [[0.1], [1e300]]]),
                          d=np.array([1, 2**32 - 1], "u4"),
                          e=values[:, :1].astype("f2")),
        "npy_i1": npy(values.astype("i1")),
        "npy_version_2": npy(values.astype("f4"), (2, 0)),
        "npy_version_3": npy(values.astype("i4"), (3, 0)),
        "npy_none": npy(np.zeros((0, 3), "u1")),
        "npy_scalar": npy(np.array(3.0, "f4")),
        "npy_fortran": npy(np.asfortranarray(values.astype("f4"))),
        "npy_big": npy(values.astype(">f4")),
        "npy_complex": npy(values.astype("c8")),
        "npy_records": npy(np.zeros(3, dtype=[("a", "f4"), ("b", "i4")])),
        "npy_floats": npy(np.ones((20, 3, 4), "f4")),
    }
    print("/* Written by make_array_vectors.py. */")
    print("/* clang-format off */")
    for name, data in files.items():
        write_bytes(name, data)


main()

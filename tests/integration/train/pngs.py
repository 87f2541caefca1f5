"""Images that tests make: PNG files of pixels, without a library."""

import os
import random
import struct
import zlib


RGB, GREY, GREY_ALPHA, RGBA = (2, 3), (0, 1), (4, 2), (6, 4)  # number, channels


def png(width, height, pixels, kind=RGB, bits=8):
    """The bytes of a file of rows of such pixels."""
    def chunk(name, data):
        return (struct.pack(">I", len(data)) + name + data +
                struct.pack(">I", zlib.crc32(name + data)))
    row = width * kind[1] * bits // 8
    rows = b"".join(b"\0" + pixels[row * y:row * (y + 1)]
                    for y in range(min(height, len(pixels) // row)))
    return (b"\x89PNG\r\n\x1a\n" +
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind[0],
                                       0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def write(path, width, height, rgb):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(png(width, height, rgb))


def pattern(kind, width, height, pick):
    """Bright in a corner of its kind's own, with noise: easy to tell."""
    rgb = bytearray()
    for y in range(height):
        for x in range(width):
            near = (x * 2 < width) == bool(kind & 1) and \
                (y * 2 < height) == bool(kind & 2)
            rgb += bytes(pick.randrange(60) + (150 if near else 0)
                         for _ in range(3))
    return bytes(rgb)


def folder(path, classes, each, side=16, seed=1):
    """A folder of classes; not all of its images are square."""
    pick = random.Random(seed)
    for kind, name in enumerate(classes):
        for i in range(each):
            width, height = side + i % 3, side + i % 2
            write(os.path.join(path, name, f"{i:03}.png"), width, height,
                  pattern(kind, width, height, pick))
    return path


def from_records(path, records):
    """A folder of 100 classes, of the records of CIFAR-100 (files.py). They are
    to be sorted by label, for their order to be the folder's."""
    for i in range(0, len(records), 3074):
        label, planes = records[i + 1], records[i + 2:i + 3074]
        rgb = bytes(planes[c * 1024 + k] for k in range(1024)
                    for c in range(3))
        write(os.path.join(path, f"{label:03}", f"{i // 3074:06}.png"), 32, 32,
              rgb)

"""Files that training reads and writes."""

import json
import os
import random
import struct
import tarfile

RECORD = 3074


def records(count, seed, label=None):
    """CIFAR-100 records of random images, in the published layout."""
    pick = random.Random(seed)
    out = bytearray()
    for _ in range(count):
        fine = pick.randrange(100) if label is None else label
        out += bytes((fine % 20, fine))
        out += pick.getrandbits(8 * (RECORD - 2)).to_bytes(RECORD - 2, "big")
    return bytes(out)


def write_folder(path, train, test):
    os.makedirs(path)
    for name, data in (("train.bin", train), ("test.bin", test)):
        with open(os.path.join(path, name), "wb") as file:
            file.write(data)
    return path


def write_npy(path, kind, shape, data):
    """As NumPy saves an array."""
    header = (f"{{'descr': '{kind}', 'fortran_order': False, "
              f"'shape': {shape}, }}").encode()
    header += b" " * (117 - len(header)) + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) +
                   header + data)


def write_arrays(path, train, test):
    """A folder of .npy files of CIFAR-100 records."""
    os.makedirs(path)
    for split, data in (("train", train), ("val", test)):
        rows = [data[i:i + RECORD] for i in range(0, len(data), RECORD)]
        write_npy(os.path.join(path, f"{split}_images.npy"), "|u1",
                  (len(rows), 3, 32, 32), b"".join(r[2:] for r in rows))
        write_npy(os.path.join(path, f"{split}_labels.npy"), "<i8",
                  (len(rows),), struct.pack(f"<{len(rows)}q",
                                            *(r[1] for r in rows)))


def write_archive(path, folder):
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, "cifar-100-binary")
    return path


def read_safetensors(path):
    """The header, and the bytes of each tensor by name."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    tensors = {name: data[slice(*row["data_offsets"])]
               for name, row in header.items() if name != "__metadata__"}
    return header, tensors


def to_f16(data):
    """The bytes of F32 as those of F16."""
    count = len(data) // 4
    return struct.pack(f"<{count}e", *struct.unpack(f"<{count}f", data))


def write_safetensors(path, tensors):
    """Rows of (dtype, shape, bytes) by name, without metadata."""
    header, end = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data)


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]

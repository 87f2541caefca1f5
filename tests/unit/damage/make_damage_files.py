#!/usr/bin/env python3
"""Writes damage_files.h: small valid files of other programs, and which of their
bytes a checksum covers. The files come from CPython's own modules and from the
program zstd.

usage: make_damage_files.py > damage_files.h
"""
import bz2
import gzip
import io
import json
import lzma
import struct
import subprocess
import tarfile
import zipfile
import zlib

TEXT = b"The quick brown fox jumps over the lazy dog. "


def run(*command, data):
    return subprocess.run(command, input=data, stdout=subprocess.PIPE,
                          check=True).stdout


# ---- images ----------------------------------------------------------------

def png(width, height, depth, kind, row, *more):
    def chunk(name, data):
        return (struct.pack(">I", len(data)) + name + data +
                struct.pack(">I", zlib.crc32(name + data)))
    return (b"\x89PNG\r\n\x1a\n" +
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind,
                                       0, 0, 0)) +
            b"".join(chunk(*one) for one in more) +
            chunk(b"IDAT", zlib.compress((b"\0" + row) * height)) +
            chunk(b"IEND", b""))


def images():
    yield "png_grey", png(3, 2, 8, 0, b"\x10\x80\xff"), [], []
    yield "png_palette", png(2, 3, 8, 3, b"\0\1", (b"gAMA", b"\0\0\xb1\x8f"),
                             (b"PLTE", bytes(range(40, 46))),
                             (b"tRNS", b"\x80"), (b"tEXt", b"Title\0x")), [], []


# ---- arrays ----------------------------------------------------------------

def npy(kind, shape, data):
    header = (f"{{'descr': '{kind}', 'fortran_order': False, "
              f"'shape': {shape}, }}").encode()
    header += b" " * (-(len(header) + 11) % 16) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


def npz(method):
    """As numpy.savez and numpy.savez_compressed write it, and the ranges of
    stored contents."""
    out = io.BytesIO()
    ranges = []
    with zipfile.ZipFile(out, "w") as file:
        for name, array in (
                ("images", npy("|u1", (2, 2, 3), bytes(range(12)))),
                ("labels", npy("<i8", (2,), struct.pack("<qq", 1, 0)))):
            info = zipfile.ZipInfo(name + ".npy")
            info.compress_type = method
            with file.open(info, "w", force_zip64=True) as member:
                member.write(array)
            if method == zipfile.ZIP_STORED:
                end = file.start_dir
                ranges.append((end - len(array), end, "REFUSED"))
    return out.getvalue(), ranges


def arrays():
    yield "npy", npy("<f4", (2, 3), struct.pack("<6f", *range(6))), [], []
    yield "npy_idx", (b"\0\0\x08\x03" + struct.pack(">III", 2, 1, 3) +
                      bytes(range(6))), [], []
    for name, method in (("npz_stored", zipfile.ZIP_STORED),
                         ("npz_deflated", zipfile.ZIP_DEFLATED)):
        data, ranges = npz(method)
        yield name, data, ranges, []


# ---- packed files ----------------------------------------------------------

def zstd(data):
    return run("zstd", "-q", "-c", "--check", data=data)


def unknown(magic):
    """Cuts within the magic number: what is left counts as text."""
    return [(1, magic, "ANY")]


def members(*parts):
    """gzip members, the ranges of their trailers, and where each ends."""
    data, flips, cuts = b"", [], unknown(2)
    for part in parts:
        data += gzip.compress(part, mtime=0)
        flips.append((len(data) - 8, len(data), "REFUSED"))
        cuts.append((len(data), len(data) + 1, "ANY"))
    return data, flips, cuts[:-1]


def packed():
    yield ("gzip_one",) + members(TEXT)
    yield ("gzip_three",) + members(TEXT, b"Second part. ", b"Third part. ")
    yield "xz", lzma.compress(TEXT), [], []
    yield "bzip2", bz2.compress(TEXT), [], unknown(10)
    data = zstd(TEXT)
    yield "zstd", data, [(len(data) - 4, len(data), "REFUSED")], unknown(2)


def cifar():
    """Test records ahead of training records: readers of the first must notice
    damage in the second, too, where they are packed together. More than zstd
    unpacks at once."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for name, fine, count in (("test.bin", 7, 1), ("train.bin", 9, 50)):
            info = tarfile.TarInfo("cifar-100-binary/" + name)
            info.size = count * 3074
            t.addfile(info, io.BytesIO(count * (bytes((3, fine)) +
                                                bytes(3072))))
    return out.getvalue()


def archives():
    yield ("tar_gzip",) + members(cifar())[:2] + ([],)
    data = zstd(cifar())
    yield "tar_zstd", data, [(len(data) - 4, len(data), "REFUSED")], []


# ---- tensors and texts -----------------------------------------------------

def safetensors(**tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def tensors():
    yield "safetensors", safetensors(
        a=("F32", [2, 3], struct.pack("<6f", *range(6))),
        b=("BF16", [4], bytes(8)), c=("I64", [], bytes(8))), [], []
    yield "shard_one", safetensors(a=("F32", [2], bytes(8))), [], []
    yield "shard_two", safetensors(b=("F32", [1, 3], bytes(12))), [], []
    yield "safetensors_index", json.dumps({
        "metadata": {"total_size": 20}, "weight_map": {
            "a": "one.safetensors", "b": "two.safetensors"}},
        indent=2).encode() + b"\n", [], []


VOCABULARY = {"h": 0, "e": 1, "l": 2, "o": 3, "he": 4, "ll": 5, "hell": 6,
              "hello": 7, "<|endoftext|>": 8}
MERGES = ["h e", "l l", "he ll", "hell o"]


def texts():
    special = {"id": 8, "content": "<|endoftext|>", "single_word": False,
               "lstrip": False, "rstrip": False, "normalized": False,
               "special": True}
    more = {**special, "id": 9, "content": "<pad>"}
    level = {"type": "ByteLevel", "add_prefix_space": False,
             "trim_offsets": True, "use_regex": True}
    yield "tokenizer", json.dumps({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [special, more], "normalizer": {"type": "NFC"},
        "pre_tokenizer": level, "post_processor": level, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False,
                  "vocab": VOCABULARY, "merges": MERGES}}).encode(), [], []
    yield "vocabulary", json.dumps(VOCABULARY).encode(), [], []
    yield ("merges", b"#version: 0.2\n" + "\n".join(MERGES).encode() + b"\n",
           [], [])
    yield "csv", (b"height,\"width, mm\",class\n1.5,2,0\n\"3\",4e1,1\n"
                  b"-5,0.25,2\n7,8,1\n"), [], []
    yield "csv_plain", b"1.5;2;0\n3;4e1;1\n-5;0.25;2\n", [], []


# ---- C ---------------------------------------------------------------------

def write_ranges(name, ranges):
    print(f"static const damage_range {name}[] = {{")
    for begin, end, rule in ranges:
        print(f"    {{{begin}, {end}, DAMAGE_{rule}}},")
    print("};")


def write(name, data, flips, cuts):
    print(f"static const uint8_t {name}_file[] = {{")
    for i in range(0, len(data), 15):
        print("    " + "".join(f"0x{b:02x}," for b in data[i:i + 15]))
    print("};")
    if flips:
        write_ranges(name + "_flips", flips)
    if cuts:
        write_ranges(name + "_cuts", cuts)
    print()


def main():
    groups = {"IMAGES": images, "ARRAYS": arrays, "PACKED": packed,
              "ARCHIVES": archives, "TENSORS": tensors, "TEXTS": texts}
    print("/* Written by make_damage_files.py; a test defines which it wants. */")
    print("/* clang-format off */")
    for group, make in groups.items():
        print(f"#ifdef DAMAGE_{group}")
        for one in make():
            write(*one)
        print("#endif")


main()

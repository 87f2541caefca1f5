#!/usr/bin/env python3
"""Makes what the fuzz targets begin with: small inputs that are right, or
nearly so. usage: make_seeds.py FOLDER, which gets a folder for each target."""
import bz2
import gzip
import io
import json
import lzma
import os
import struct
import sys
import tarfile
import zipfile
import zlib

RECORD = 3074


def word(value):
    return struct.pack("<I", value)


def compact(value):
    return json.dumps(value, separators=(",", ":")).encode()


# ---- safetensors -----------------------------------------------------------

def tensors(shapes, dtype="F32", size=4):
    """The header for tensors one behind the other, and their bytes."""
    header, at = {}, 0
    for name, shape in shapes.items():
        count = size
        for extent in shape:
            count *= extent
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [at, at + count]}
        at += count
    return header, at


def safetensors():
    header, size = tensors({"a": [2, 3], "b": [6, 0]})
    text = compact(header)
    whole = struct.pack("<Q", len(text)) + text + bytes(size)
    yield b"\x02" + whole
    yield b"\x00" + struct.pack("<Q", 2) + b"{}"
    yield b"\x03" + word(size) + text
    yield b"\x05" + word(size) + text
    half, size = tensors({"a": [2, 3]}, "BF16", 2)
    yield b"\x03" + word(size) + compact(half)
    half["__metadata__"] = {"key": "value"}
    yield b"\x03" + word(size) + compact(half)
    whole, size = tensors({"a": [2, 3], "c": [2, 2], "b": [6, 0]})
    whole["c"]["dtype"] = "I32"
    yield b"\x07" + word(size) + compact(whole)


def gpt2_shapes(d, inner, published):
    def matrix(rows, columns):
        return [rows, columns] if published else [columns, rows]
    return {
        "wte.weight": [2, d], "wpe.weight": [2, d],
        "h.0.ln_1.weight": [d], "h.0.ln_1.bias": [d],
        "h.0.attn.c_attn.weight": matrix(d, 3 * d),
        "h.0.attn.c_attn.bias": [3 * d],
        "h.0.attn.c_proj.weight": matrix(d, d), "h.0.attn.c_proj.bias": [d],
        "h.0.ln_2.weight": [d], "h.0.ln_2.bias": [d],
        "h.0.mlp.c_fc.weight": matrix(d, inner), "h.0.mlp.c_fc.bias": [inner],
        "h.0.mlp.c_proj.weight": matrix(inner, d), "h.0.mlp.c_proj.bias": [d],
        "ln_f.weight": [d], "ln_f.bias": [d],
    }


def gpt2():
    for form in (b"\x00", b"\x01"):
        for published in (True, False):
            header, size = tensors(gpt2_shapes(64, 1, published))
            yield form + word(size) + compact(header)
            header, size = tensors(gpt2_shapes(64, 1, published), "F16", 2)
            yield form + word(size) + compact(
                {f"transformer.{name}": entry for name, entry in header.items()})
    config = {"kind": "gpt2", "vocabulary": 2, "context": 2, "d_model": 64,
              "d_ff": 1, "layers": 1, "heads": 1, "rope_theta": 0.0,
              "rope_halves": False}
    header = {"__metadata__": {"transformer": json.dumps(config)}}
    yield b"\x00" + word(0) + compact(header)


def llama():
    config = {"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 4,
              "num_attention_heads": 2, "num_key_value_heads": 1,
              "intermediate_size": 3, "max_position_embeddings": 8,
              "vocab_size": 2, "rms_norm_eps": 1e-6, "head_dim": 2,
              "tie_word_embeddings": True}
    yield b"\x01" + compact(config)
    yield b"\x01" + compact({**config, "rope_theta": 1e4, "rope_scaling": {
        "type": "linear", "factor": 2.0}})
    yield b"\x01" + compact({**config, "rope_parameters": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8,
        "rope_theta": 5e5}})
    yield b"\x00" + compact({"metadata": {"total_size": 32}, "weight_map": {
        "x": "a.safetensors", "y": "b.safetensors"}})


# ---- checkpoints -----------------------------------------------------------

def optimizer(steps=3):
    return {"kind": "adamw", "groups": [
        {"steps": steps, "state": ["exp_avg", "exp_avg_sq"],
         "parameters": ["w", "v"]}]}


def checkpoint():
    manifest = {"step": 1, "ranks": 1, "optimizer": optimizer(), "values": {},
                "files": [{"name": "x", "bytes": 0, "crc32": 0}]}
    yield b"\x05" + compact(manifest)
    manifest["files"] = []
    yield b"\x05" + compact(manifest)
    yield b"\x05" + compact({**manifest, "optimizer": optimizer(-1)})
    yield b"\x00" + compact(manifest)
    yield b"\x01\x00\x00" + b"1 2 3 4 5 6 7 8 9 1e1"
    names = {"exp_avg/v@0": [2], "exp_avg_sq/v@0": [2], "exp_avg/w@0": [6],
             "exp_avg_sq/w@0": [3], "exp_avg_sq/w@3": [3], "buffer/b": [2]}
    header, size = tensors(names)
    yield b"\x02" + word(size) + compact(header)


# ---- records ---------------------------------------------------------------

def call(sequence, operation="all_reduce", status="done", **more):
    return {"sequence": sequence, "call": f"{operation} of 8 f32",
            "operation": operation, "count": 8, "dtype": "f32", "redop": "sum",
            "root": 0, "bytes": 32, "began_ns": 90 + sequence,
            "ended_ns": 91 + sequence, "status": status, **more}


def record(rank, size=2, failure=None, calls=(1, 2), messages=()):
    ranks = [{"rank": r, "presence": "alive", "pid": 10 + r, "host": "here",
              "completed": 2, "arrived": 2, "waits_for": 1}
             for r in range(size)]
    return compact({
        "lockstep_record": 1, "job": "j", "group": 0, "rank": rank,
        "size": size, "host": "here", "pid": 10 + rank, "reason": "SIGUSR1",
        "written_ns": 10 ** 10, "wall_ns": 10 ** 12, "completed": 2,
        "failure": failure, "ranks": ranks,
        "collectives": [c if isinstance(c, dict) else call(c) for c in calls],
        "messages": list(messages)})


def records():
    yield record(0) + b"\0" + record(1)
    yield record(0) + b"\0" + record(1, calls=(1, call(2, "barrier")))
    yield record(0, calls=(1, 2 ** 61)) + b"\0" + record(1)
    yield record(1, calls=(1, call(2, status="in flight")))
    yield record(0, failure={"kind": "LS_ERR_PEER_DEAD", "sequence": 2,
                             "rank": 1})
    yield record(0, failure={"kind": "LS_ERR_TIMEOUT", "sequence": 2,
                             "rank": 1}, calls=(call(2, status="failed"),))
    side = {"rank": 0, "call": "barrier"}
    yield record(0, failure={"kind": "LS_ERR_MISMATCH", "sequence": 2,
                             "field": "count", "sides": [side, side]})
    yield record(0, messages=[call(1, "send", "in flight", peer=1)])


def audit():
    header = b'{"lockstep audit":1,"version":"0.1.0","settings":{"lr":"1"}}\n'
    run = b'{"run":{"command":"train lm","ranks":2,"flags":{}}}\n'
    tensors = b'"values":{},"state":"00","tensors":{"w":[5000,"0","0123456789abcdef"]}}\n'
    other = tensors.replace(b"cdef", b"cdee")
    yield (b"\x00" + header + run + b'{"step":0,' + tensors + b'{"saved":3,' + tensors +
           run + b'{"step":4,' + other)
    yield b"\x00" + header + b'{"step":0,' + tensors
    yield b"\x01" + header + run


def jsonl():
    yield b'\x01{"a":1}\n{"a":2}\n'
    yield b"\x07{}\n{}"
    yield b"\x00\n\n"


def events():
    def event(step, body):
        text = b"\x09" + bytes(8) + b"\x10" + bytes([step]) + body
        return bytes([len(text)]) + text

    scalar = b"\x2a\x0c\x0a\x0a\x0a\x03a/b\x15" + struct.pack("<f", 1.5)
    yield b"\x04" + b"".join(event(n, scalar) for n in (1, 2, 4, 4, 5))
    yield b"\x00" + event(0, b"\x3a\x02\x08\x01") + event(0, scalar)
    yield b"\x06" + event(3, b"\x52\x00\x1d1234\x80\x01\x7f")
    yield b"\x01" + struct.pack("<QI", 1, 2) + bytes(5)


# ---- lines and words -------------------------------------------------------

def select():
    for flags in (0, 1, 2, 4, 7):
        yield bytes([flags]) + b"all_reduce:0-4k:flat;4k-inf:direct|staged"
        yield bytes([flags]) + b"broadcast:0-inf:staged,reduce:1m-2g:butterfly"
        yield bytes([flags])
    yield b"\x08# a comment\nmachine: x, 2 cpus\nall_reduce:0-inf:staged\n"
    for flags in (16, 18, 48):
        yield bytes([flags]) + (b"2 ranks: all_reduce:0-8k:flat\n"
                                b"3 ranks: broadcast:0-inf:tree\n"
                                b"crowded: reduce:1m-inf:copy|staged\n")


def config():
    """Flags in JSON, as run.json has them and alone."""
    flags = {"flag": False, "integer": 7, "bytes": "10m", "real": 0.25,
             "string": "text", "choice": "two", "list": "a,b"}
    for name in ("flags", "other"):
        yield json.dumps({"lockstep": "0.1.0", "command": "fuzz",
                          name: flags}).encode()
    yield json.dumps(flags).encode()
    for value in (None, True, [], {}, 1e300, -1, "x", ""):
        yield json.dumps({"real": value, "unknown": value}).encode()


def options():
    yield b"\x00-i\n7\n--bytes=4k\n-r1.5\n--no-flag\n-c\ntwo\n--\nmore"
    yield b"\x02--integer\n3\n--string=x\n-l\na,b\n--help"
    yield b"\x00--any-integer=9223372036854775807\nmore"
    yield b"\x01-n\n4\n--threads\n2\n--\ntrue"
    yield b"\x01--nproc_per_node=auto\n--standalone\ntrue"
    yield b"\x01--rdzv_backend\nc10d"
    yield (b"\x01--nnodes=2:4\n--node_rank=1\n--rdzv_endpoint=h0:29400\n"
           b"--rdzv_conf=join_timeout=5,last_call_timeout=1\nx")
    yield b"\x01--nnodes=2\n--master_addr=h0\n--master_port=1\nx"
    yield b"\x01--nnodes=1:1\n--node_rank=0\n--master_addr=localhost\nx"


def lists():
    yield b"1,2,3"
    yield b"4k,10m,1g,3"
    yield b"0,1000,0,2"
    yield b"8,1m,64,2"
    yield b"9223372036854775807"


def machine():
    yield b"\x0250000 100000\n100000\n0::/user\n4:cpu,cpuacct:/x\n"
    yield b"\x03max 100000\n-1\nMemAvailable: 1234 kB\n"
    yield (b"\x000::/\n50000 100000\n1000000\n2000\n"
           b"active_file 5\ninactive_file 6\n")
    yield b"\x01\x03\x00\x00\x01\x01\x02\x02"
    yield b"\x01\x05\x00\x01\x04\x05\x10\x11\xc0\x15"
    yield b"\x0a0-3,8-11,64\n"


def environment():
    def line(index, value):
        return bytes([index]) + value + b"\n"
    yield line(0, b"1") + line(1, b"2") + line(2, b"1") + line(3, b"2")
    yield line(4, b"1") + line(5, b"4") + line(6, b"1") + line(7, b"2")
    yield line(8, b"0") + line(9, b"2") + line(10, b"0") + line(11, b"2")
    yield (line(12, b"1") + line(13, b"7") + line(14, b"0") + line(15, b"0") +
           line(16, b"4") + line(17, b"2(x3),1") + line(18, b"2"))
    yield line(19, b"mpi") + line(20, b"job") + line(21, b"1.5")
    yield line(22, b"1") + line(23, b"ref") + line(24, b"2,1")


# ---- data ------------------------------------------------------------------

def cifar100():
    yield b"\x02\x01\x03\x63\x13\x00"
    yield b"\x01\x00\x05\x00\x00"


def tar(name, content, form=tarfile.USTAR_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def archive():
    one = b"\x01\x02" + bytes(RECORD - 2)
    # Without the blocks of zeros at the end, which only make inputs long.
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        yield b"\x01" + tar("cifar-100-binary/test.bin", one, form)[:512 * 8]
    yield b"\x01" + tar("a" * 120 + "/test.bin", b"xy",
                        tarfile.PAX_FORMAT)[:512 * 5]
    yield b"\x01" + tar("b" * 180 + "/test.bin", b"xy",
                        tarfile.GNU_FORMAT)[:512 * 5]
    yield b"\x00" + gzip.compress(tar("test.bin", one), mtime=0)
    yield b""


def tokens():
    for form in range(7):
        yield bytes([form]) + word(0) + b"some text of a file"
    yield b"\x02" + word(1 + 2 * 6) + bytes(12)
    yield b"\x02" + word(2 * 2) + bytes(8)


# ---- data ------------------------------------------------------------------

def npy(kind, shape, data, version=1):
    header = (f"{{'descr': '{kind}', 'fortran_order': False, "
              f"'shape': {shape}, }}\n").encode()
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


def npz(method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, array in (("images", npy("|u1", (10, 2, 2), bytes(40))),
                            ("labels", npy("<i8", (10,), bytes(80)))):
            info = zipfile.ZipInfo(name + ".npy")
            info.compress_type = method
            file.writestr(info, array)
    return out.getvalue()


def png(kind, row, depth=8):
    def chunk(name, data):
        return (struct.pack(">I", len(data)) + name + data +
                struct.pack(">I", zlib.crc32(name + data)))
    return (b"\x89PNG\r\n\x1a\n" +
            chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 3, depth, kind, 0, 0, 0)) +
            (chunk(b"PLTE", bytes(range(12))) if kind == 3 else b"") +
            chunk(b"IDAT", zlib.compress((b"\0" + row) * 3)) +
            chunk(b"IEND", b""))


# 8 x 8, grey.
JPEG = bytes.fromhex(
    "ffd8ffe000104a46494600010100000100010000ffdb004300" + "01" * 64 +
    "ffc0000b080008000801011100ffc40014000100000000000000000000000000000009"
    "ffc40014100100000000000000000000000000000000ffda0008010100003f00bfffd9")


def arrays():
    for version in (1, 2, 3):
        yield b"\x00" + npy("<f4", (2, 3), bytes(24), version)
    yield b"\x00" + npy("|b1", "()", b"\1")
    yield b"\x01" + b"\0\0\x08\x03" + struct.pack(">III", 2, 1, 3) + bytes(6)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        yield b"\x02" + npz(method)
        yield b"\x05" + npz(method)
    for kind, row in ((0, bytes(2)), (2, bytes(6)), (3, bytes(2)), (6, bytes(8))):
        yield b"\x03" + png(kind, row)
    yield b"\x03" + png(0, bytes(4), 16)
    yield b"\x03" + JPEG
    for pack in (gzip.compress, lzma.compress, bz2.compress):
        yield b"\x04" + pack(npy("|u1", (2,), b"ab"))
    yield b"\x04" + gzip.compress(b"one") + gzip.compress(b"two")


def crash():
    yield (b"lockstep crash 1\nsignal 11 address 0x0 pid 17 thread 18\n"
           b"note x\n0x1139\n0x2185 call\nmaps\n"
           b"1000-2000 r-xp 00001000 08:01 17   /usr/bin/a\n"
           b"2000-3000 r-xp 00001000 08:01 17   /usr/bin/a\n")
    yield b"lockstep crash 1\nsignal 6 sent pid 1 thread 1\n0x1\nmaps\n"


def varint(value):
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def chunk(letter, *parts):
    body = b"".join(p if isinstance(p, bytes) else varint(p) for p in parts)
    return letter + struct.pack("<I", len(body)) + body


# Kinds of memory events, in the order of observe/memory_events.h.
PATH, CALL, INITIAL, KEPT_NOW, TAKEN, OF_POOL, OPERATION, GIVEN, COUNTED, REFUSED = range(10)

# Events that `bench sync-batch-norm` has recorded of one pass, with shorter stacks, fewer
# blocks and a range.
RECORDED_MEMORY = (
    (KEPT_NOW, 0, 0), (CALL, 0, 0x562ac17e178e), (CALL, 1, 0x562ac17e2b78),
    (TAKEN, 1, 137194, 32, 7, 0, 0, 0, 1, 2), (CALL, 1, 0x562ac18ddfcb),
    (TAKEN, 2, 293157, 72, 5, 0, 0, 0, 2, 3), (TAKEN, 3, 393267, 131136, 5, 0, 0, 0, 3, 3),
    (GIVEN, 2, 623710), (COUNTED, 955365, 5, 512), (TAKEN, 4, 1028214, 0, 0, 0, 0, 0, 5, 2),
    (TAKEN, 5, 1056566, 720, 7, 0, 0, 0, 6, 2), (KEPT_NOW, 1072981, 192),
    (KEPT_NOW, 1073862, 272), (OF_POOL, 6, 1078199, 32, 3, 0, 0, 0, 4, 2),
    (OF_POOL, 7, 1088204, 128, 3, 0, 0, 0, 4, 3), (PATH, 0, 7), (OPERATION, 8, 2, 6, 7),
    (KEPT_NOW, 1121393, 1200), (OF_POOL, 8, 1125389, 4, 3, 0, 4, 0, 4, 2),
    (OPERATION, 9, 1, 8), (OF_POOL, 9, 1138008, 4, 3, 10, 4, 0, 4, 2),
    (OF_POOL, 10, 1150647, 16, 3, 10, 4, 11, 4, 2), (GIVEN, 9, 1152490),
    (OF_POOL, 11, 1166831, 32, 3, 10, 4, 12, 4, 3), (GIVEN, 10, 1168393),
    (GIVEN, 11, 1168400), (GIVEN, 8, 1168634), (GIVEN, 7, 1168844), (GIVEN, 6, 1168944),
    (COUNTED, 1170000, 5, 511), (REFUSED, 1170001, 4096), (KEPT_NOW, 1180000, 0))
RECORDED_NAMES = ("a table", "a group of threads", "the record of operations", "a tensor",
                  "the parameters", "a tape", "block 0", "sync_batch_norm", "sum",
                  "backward", "sum backward", "sync_batch_norm backward")


def memory():
    def head(rank, size):
        return chunk(b"H", compact({
            "lockstep_trace": 2, "version": "0.1.0", "rank": rank, "size": size,
            "job": "6881ec94d3405ad0", "host": "h", "boot": "b", "pid": 24210,
            "memory": ["parameters"]}))

    def events(*all_of_them):
        return chunk(b"M", *(n for event in all_of_them for n in event))
    things = ((PATH, 0, 1), (CALL, 0, 0x7f01), (CALL, 2, 0x7f02), (INITIAL, 7, 20),
              (KEPT_NOW, 0, 128))
    few = ((OF_POOL, 1, 10, 64, 3, 0, 1, 0, 3, 3), (OPERATION, 2, 1, 1),
           (TAKEN, 2, 20, 100, 0, 1, 1, 2, 3, 3), (COUNTED, 30, 5, 8192), (GIVEN, 1, 40),
           (REFUSED, 50, 99), (COUNTED, 60, 5, 8191), (KEPT_NOW, 70, 0))
    begin = b"LSTRACE2" + head(0, 1) + chunk(b"C", 100, 1000, 10 ** 12) + b"".join(
        chunk(b"N", i, n) for i, n in enumerate((b"block 0", b"linear", b"a tensor")))
    line = chunk(b"L", b"1000-2000 r-xp 0 08:01 1 /a")
    yield begin + events(*things) + events(*few) + line + chunk(b"Z", 0, 8)
    yield begin + events(*things, *few)[:-3]
    counted = sum(e[0] not in (PATH, CALL, INITIAL, OPERATION) for e in RECORDED_MEMORY)
    yield (b"LSTRACE2" + head(-1, 0) + head(0, 1) + b"".join(
        chunk(b"N", i, n.encode()) for i, n in enumerate(RECORDED_NAMES)) +
           events(*RECORDED_MEMORY) + line + chunk(b"Z", 0, counted))


def csv():
    yield b"\x00a,b\n1,2.5\n-3e2, 4\n"
    yield b"\x01\"a\";b\r\n1;2\r\n\r\n3;0\r\n"
    yield b"\x02a\tb\n1\t2"
    yield b"\x011,2\n3,4\n"


def python():
    yield b'{"message": {"message": "ValueError: 3", "extraInfo": {}}}'
    yield b'{"message": "Signal 11"}'
    yield (b"[rank1]: Traceback (most recent call last):\n"
           b"[rank1]:   File\n[rank1]: RuntimeError: no\n")


# ---- meetings --------------------------------------------------------------

def hello(rank, size=4, status=0):
    return struct.pack("<Qiiii", 0, rank, size, 77, status)


def rendezvous():
    host = b"".join(b"\x02" + hello(r) + b"\x02" + hello(r)
                    for r in (1, 2, 3))
    yield b"\x00" + host
    yield b"\x02" + host
    yield b"\x00\x02" + hello(1) + b"\x02" + hello(1, status=-4)
    yield b"\x03\x03" + struct.pack("<Qi", 0, 0) + bytes(492)
    yield b"\x01\x03" + struct.pack("<Qi", 0, -9) + b"a reason" + bytes(480)


def card(place, job, number, status):
    return struct.pack("<QQii", place, job, number, status)


def meeting():
    cards = b"".join(card(r % 2, 5, r, 0) for r in range(6)) + b"\0"
    yield cards + cards
    yield cards + b"".join(card(0, 0, 0, -r) for r in range(6))


def frame(kind, key=b"", data=b""):
    return b"LsR1" + struct.pack("<BBHI", kind, 0, len(key), len(data)) + key + data


def pieces(*frames):
    return b"".join(bytes([len(f)]) + f for f in frames)


def store():
    get = frame(8, b"a/b", struct.pack("<Q", 50))
    put = frame(6, b"a/b", b"hello")
    yield b"\x00" + pieces(frame(1, data=bytes(32)), b"", frame(3, data=bytes(32)))
    yield b"\x00" + pieces(b"GET / HTTP/1.1\r\n\r\n", put)
    yield b"\x01" + pieces(get, put, put, get)
    yield b"\x01" + pieces(frame(11, data=b"hello"), frame(11, data=b"x"), get[:9], b"", get[9:])
    yield b"\x02" + pieces(frame(2, data=b"\x01" + bytes(32)), frame(4, data=bytes(32)))
    yield b"\x02" + pieces(frame(5, data=b"no\n"))
    yield b"\x03[fd00::1]:29400\n^=eth0,lo"
    yield b"\x03node0:29400\neth,ib"


def agents():
    def join(who, node=-1, **more):
        return {"word": "join", "agent": who, "host": "h", "run": "",
                "past": "", "restart": 0, "least": 2, "most": 3, "node": node,
                "local": 2, "port": 0, "machine": "b007", "cpus": "0-3,8",
                "quota_of": "2a", "quota": 2500, **more}

    def said(*pairs):
        return b"\x01" + b"\n".join(str(peer).encode() + compact(words)
                                    if words else str(peer).encode()
                                    for peer, words in pairs)
    failed = {"word": "failed", "verdict": 3, "strength": 0, "text": "x"}
    done = {"word": "done", "verdict": 0}
    for words in (join("own", 0), failed, done, {"word": "asked", "number": 15},
                  {"word": "start", "run": "r", "job": "j", "port": 1,
                   "group": 0, "groups": 2, "offset": 0, "world": 3,
                   "restart": 0, "restarts": 1, "threads": 2},
                  {"word": "ping"}):
        yield b"\x00" + compact(words)
    three = ((1, join("own", 0)), (2, join("b", 1, quota=0)),
             (3, join("c", machine="0", cpus="")))
    yield said(*three, (1, done), (2, done), (3, done))
    yield said(*three, (2, failed), (1, done), (3, done), (2, done), (2, None))
    yield said(*three, (2, None), (3, {**failed, "strength": 1}), (3, done),
               (4, join("b", 1)), (1, done), (1, {"word": "asked",
                                                  "number": 2}))
    yield said(*three, (4, join("d", 2)), (5, join("b", 1)), (1, done))
    yield said(three[0], (2, join("b", 1, past="r", restart=1)), three[2])


# ---- tokenizers ------------------------------------------------------------

def byte_chars():
    """The characters that stand for bytes in GPT-2's files."""
    code = 256
    for byte in range(256):
        printable = 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174
        yield chr(byte if printable else code)
        code += not printable


def ssh():
    yield b"\x00" + b"3:C/a,4:EA=1,4:Arun,1:.,3:N15,"
    yield b"\x01" + b"a:2,b,me@c.d:1024"


def tokenizer():
    text = "\0ab a'll 12\n  <s>\u00e9\u65e5 \U0001f642b".encode()
    alphabet = list(byte_chars())
    vocab = {c: i for i, c in enumerate(alphabet)}
    merges = ["a b", "\u0120 a", "1 2", "\u00c3 \u00a9"]
    for merge in merges:
        vocab[merge.replace(" ", "")] = len(vocab)
    yield (b"\x01" + json.dumps(vocab).encode() + b"\0#version: 0.2\n" +
           "\n".join(merges).encode() + text)
    yield b"\x00" + compact({"model": {
        "type": "BPE", "vocab": {"": 0}, "merges": []}}) + b"\0a"
    level = {"type": "ByteLevel", "add_prefix_space": True}
    special = {"id": len(vocab), "content": "<s>", "special": True}
    whole = {
        "added_tokens": [special], "normalizer": None, "pre_tokenizer": level,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                       {"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [len(vocab)],
                                       "tokens": ["<s>"]}}},
        "decoder": level,
        "model": {"type": "BPE", "vocab": vocab, "merges": merges,
                  "ignore_merges": True}}
    yield b"\x00" + compact(whole) + text
    whole["normalizer"] = {"type": "NFC"}
    whole["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "\\d+|\\s?\\w+"},
         "behavior": "Isolated", "invert": False},
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]}
    yield b"\x00" + compact(whole) + text
    vocab = {"<unk>": 0, "<s>": 1, "\u2581": 2, "a": 3, "b": 4, "\u2581a": 5}
    vocab.update({f"<0x{byte:02X}>": 6 + byte for byte in range(256)})
    blank = {"type": "Replace", "pattern": {"String": " "},
             "content": "\u2581"}
    fused = [{"type": "Replace", "pattern": {"String": "\u2581"},
              "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
             {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    whole = {
        "added_tokens": [{"id": 1, "content": "<s>", "special": True,
                          "normalized": True, "lstrip": True, "rstrip": True}],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"}, blank]},
        "decoder": {"type": "Sequence", "decoders": fused},
        "model": {"type": "BPE", "byte_fallback": True, "fuse_unk": True,
                  "unk_token": "<unk>", "vocab": vocab,
                  "merges": [["\u2581", "a"]]}}
    yield b"\x00" + compact(whole) + text
    part = {"type": "Metaspace", "replacement": "\u2581",
            "prepend_scheme": "first", "split": True}
    whole.update(normalizer=None, pre_tokenizer=part, decoder=part)
    yield b"\x00" + compact(whole) + text


# ---- timeline --------------------------------------------------------------

# The spans of `bench barrier -n 2 --iterations 2` on rank 0, as it has written them.
RECORDED_SPANS = bytes.fromhex(
    "002a460096e7f3dbd19905feb70901470000bce101010501db940d90d5064602"
    "d0d63eec6a024702009618020501af3fc2211403fced1ee4d002dc5f140384fb"
    "02e633dc5f1403b8028e07dc5f4600f49d05b066034700009c01030501c315ca"
    "0b5604a010ae8c010804570400bab90108040501839503b0ce014600ac09d076"
    "054700004e050501c717800d46009008ce7506470000680605018336ec434600"
    "f406ee78074700004e070501fb17e60c4600f004ba780847000068080501e70d"
    "a80756049008fa301009570400948c0110090501f7f402f2bb014600ac9a02a2"
    "040a470000680a0501db07a2044600e40be20a0b4700004e0b0501f715ca0b56"
    "04ec02c006080c570400ee03080c05018b13ae0a5604f004f406080d570400ee"
    "03080d05019b0ec207")


def recorded_timeline():
    """The rest of that file, with short kinds: the process learns its rank."""
    def head(rank, size):
        return chunk(b"H", compact({
            "lockstep_trace": 2, "version": "0.1.0", "rank": rank, "size": size,
            "job": "6881ec94d3405ad0", "host": "h", "boot": "b", "pid": 23248,
            "kinds": 10 * [{"kind": "k"}]}))
    names = ("barrier", "wait for ranks", "select", "convert", "all_reduce")
    clocks = (chunk(b"C", 11435560966791, 4404773849946, 1795425456967432480),
              chunk(b"C", 11435583287999, 4404782447866, 1795425456976030300))
    return (head(-1, 0) + clocks[0] + head(0, 2) +
            b"".join(chunk(b"N", i, n.encode()) for i, n in enumerate(names)) +
            chunk(b"T", 0, b"lockstep") + chunk(b"E", RECORDED_SPANS) +
            clocks[1] + chunk(b"Z", 42, 0))


def timeline():
    head = chunk(b"H", compact({
        "lockstep_trace": 2, "rank": 0, "size": 2, "pid": 10, "host": "here",
        "boot": "b", "job": "j"}))
    clocks = chunk(b"C", 100, 1000, 10 ** 12), chunk(b"C", 900, 1900, 10 ** 12)
    names = chunk(b"N", 0, b"gemm") + chunk(b"N", 1, b"step") + chunk(
        b"T", 0, b"main")
    spans = [(4 | 16 | 32, 0, 2 * 200, 50, 64, 128), (1 | 64, 1, 2 * 60 - 1, 70, 3),
             (7 | 16 | 64, 0, 20, 5, 64, 1), (9 | 16, 1, 4, 0, 4096)]
    events = chunk(b"E", 0, len(spans), *[n for span in spans for n in span])
    start = b"LSTRACE2" + head + clocks[0] + names
    yield start + events + clocks[1] + chunk(b"Z", len(spans), 0)
    yield start + events[:-9]
    yield start + chunk(b"E", 0, 2, *spans[0], *spans[2]) + clocks[1]
    yield b"LSTRACE2" + recorded_timeline()


TARGETS = (agents, archive, arrays, audit, checkpoint, cifar100, config, crash, csv,
           environment, events, gpt2, jsonl, lists, llama, machine, meeting, memory, options, python,
           records, rendezvous, safetensors, select, ssh, store, timeline,
           tokenizer, tokens)


def main():
    for target in TARGETS:
        folder = os.path.join(sys.argv[1], target.__name__)
        os.makedirs(folder, exist_ok=True)
        for i, seed in enumerate(target()):
            with open(os.path.join(folder, f"seed-{i}"), "wb") as file:
                file.write(seed)


main()

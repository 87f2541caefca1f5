"""TensorBoard's event files, read without TensorBoard."""

import os
import struct


def table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        yield byte


TABLE = list(table())


def masked_crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xff]
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(data):
    """The events of a file; a checksum that is wrong is an AssertionError."""
    while data:
        length, of_length = struct.unpack("<QI", data[:12])
        event, (of_event,) = data[12:12 + length], struct.unpack(
            "<I", data[12 + length:16 + length])
        assert masked_crc32c(data[:8]) == of_length
        assert masked_crc32c(event) == of_event
        yield event
        data = data[16 + length:]


def varint(data):
    value = shift = 0
    for at, byte in enumerate(data):
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value, data[at + 1:]
    raise AssertionError("a varint without an end")


def fields(data):
    """(number, value) of a message; messages and strings are bytes."""
    while data:
        key, data = varint(data)
        kind = key & 7
        if kind == 0:
            value, data = varint(data)
        elif kind == 1:
            (value,), data = struct.unpack("<d", data[:8]), data[8:]
        elif kind == 5:
            (value,), data = struct.unpack("<f", data[:4]), data[4:]
        else:
            assert kind == 2, kind
            length, data = varint(data)
            value, data = data[:length], data[length:]
            assert len(value) == length
        yield key >> 3, value


def read(folder):
    """{tag: [(step, value, wall time)]} of all files in the order of their
    names, which TensorBoard follows, and the steps at which runs began."""
    scalars, starts = {}, []
    for name in sorted(os.listdir(folder)):
        assert name.startswith("events.out.tfevents."), name
        with open(os.path.join(folder, name), "rb") as file:
            events = [dict(fields(event)) for event in records(file.read())]
        assert events[0][3] == b"brain.Event:2"
        for event in events[1:]:
            if 7 in event:
                assert dict(fields(event[7])) == {1: 1}
                starts.append(event[2])
            for _, value in fields(event.get(5, b"")):
                parts = dict(fields(value))
                scalars.setdefault(parts[1].decode(), []).append(
                    (event[2], parts[2], event[1]))
    return scalars, starts

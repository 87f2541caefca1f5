#!/usr/bin/env python3
"""Writes image_vectors.h: what Pillow makes of images.

usage: make_image_vectors.py > image_vectors.h     (Pillow 9 or later)

Resized as torchvision's Resize(size) and CenterCrop(size) do it with Pillow, and
files of several kinds decoded. Pillow 13 resizes columns before rows where that
is less work; of the cases here none is.
"""
import io
import zlib

from PIL import Image

CASES = [(5, 7, 4, 1), (40, 33, 9, 3), (13, 50, 13, 3), (9, 9, 21, 1),
         (64, 48, 32, 3), (31, 60, 17, 3), (1, 1, 5, 1), (100, 3, 2, 3),
         (33, 32, 32, 3), (35, 32, 32, 1)]


def pattern(width, height, channels):
    data = bytes((x * 7 + y * 13 + c * 29 + x * y) % 256
                 for y in range(height) for x in range(width)
                 for c in range(channels))
    return Image.frombytes("L" if channels == 1 else "RGB", (width, height),
                           data)


def fit(image, size):
    width, height = image.size
    short, long = min(width, height), max(width, height)
    if short != size:
        other = int(size * long / short)
        image = image.resize((size, other) if width <= height
                             else (other, size), Image.BILINEAR)
    width, height = image.size
    left, top = int(round((width - size) / 2.0)), int(round((height - size) / 2.0))
    return image.crop((left, top, left + size, top + size))


def planes(image):
    return b"".join(band.tobytes() for band in image.split())


def write_bytes(name, data):
    print(f"static const uint8_t {name}[] = {{")
    for i in range(0, len(data), 12):
        print("    " + " ".join(f"0x{b:02x}," for b in data[i:i + 12]))
    print("};\n")


def file_of(image, **options):
    out = io.BytesIO()
    image.save(out, **options)
    return out.getvalue()


def main():
    print("/* Written by make_image_vectors.py. */")
    print("/* clang-format off */")
    print("static const struct {\n    int64_t width, height, size;\n"
          "    int channels;\n    uint32_t crc; /* of the planes */\n} fits[] = {")
    for width, height, size, channels in CASES:
        crc = zlib.crc32(planes(fit(pattern(width, height, channels), size)))
        print(f"    {{{width}, {height}, {size}, {channels}, 0x{crc:08x}U}},")
    print("};\n")
    grey = zlib.crc32(pattern(20, 11, 3).convert("L").tobytes())
    print(f"static const uint32_t luma_crc = 0x{grey:08x}U;\n")
    smooth = pattern(20, 11, 3).resize((34, 22), Image.BICUBIC)
    files = {
        "jpeg_colour": file_of(smooth, format="JPEG", quality=80),
        "jpeg_grey": file_of(smooth.convert("L"), format="JPEG"),
        "jpeg_progressive": file_of(smooth, format="JPEG", progressive=True,
                                    subsampling=0),
        "png_palette": file_of(pattern(20, 11, 3).quantize(16), format="PNG"),
        "png_one_bit": file_of(pattern(20, 11, 1).convert("1"), format="PNG"),
    }
    for name, data in files.items():
        write_bytes(name, data)
    # Of a kind that is refused.
    write_bytes("jpeg_cmyk", file_of(smooth.convert("CMYK"), format="JPEG"))
    print("static const struct {\n    const char *name;\n"
          "    const uint8_t *data;\n    size_t bytes;\n"
          "    int64_t width, height;\n    int channels;\n"
          "    uint32_t crc;\n} files[] = {")
    for name, data in files.items():
        image = Image.open(io.BytesIO(data))
        image = image.convert("L" if image.mode in ("1", "L") else "RGB")
        width, height = image.size
        print(f'    {{"{name}", {name}, sizeof {name}, {width}, {height}, '
              f"{len(image.getbands())}, 0x{zlib.crc32(planes(image)):08x}U}},")
    print("};")


main()

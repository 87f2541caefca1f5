"""The library's tokenizer for scripts that compare it: LOCKSTEP_LIBRARY is
liblockstep.so."""
import ctypes
import os


class Tokenizer:
    def __init__(self, path):
        self.lib = lib = ctypes.CDLL(os.environ["LOCKSTEP_LIBRARY"])
        lib.ls_last_error.restype = ctypes.c_char_p
        lib.ls_tokenizer_vocabulary.restype = ctypes.c_int64
        self.handle = ctypes.c_void_p()
        self.check(lib.ls_tokenizer_open(ctypes.byref(self.handle),
                                         path.encode()))

    def check(self, status):
        if status != 0:
            raise ValueError(self.lib.ls_last_error().decode())

    def encode(self, text, special=False):
        data = text.encode() if isinstance(text, str) else text
        ids, n = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_size_t()
        self.check(self.lib.ls_tokenizer_encode(
            self.handle, data, ctypes.c_size_t(len(data)),
            ctypes.c_int(special), ctypes.byref(ids), ctypes.byref(n)))
        out = ids[:n.value]
        self.lib.ls_free(ids)
        return out

    def decode(self, ids, special=True):
        text, n = ctypes.c_void_p(), ctypes.c_size_t()
        self.check(self.lib.ls_tokenizer_decode(
            self.handle, (ctypes.c_int64 * len(ids))(*ids),
            ctypes.c_size_t(len(ids)), ctypes.c_int(special),
            ctypes.byref(text), ctypes.byref(n)))
        out = ctypes.string_at(text, n.value).decode()
        self.lib.ls_free(text)
        return out

    def stream(self, ids, special=True):
        """The same text token by token."""
        decoder, out = ctypes.c_void_p(), b""
        text, n = ctypes.c_void_p(), ctypes.c_size_t()
        self.check(self.lib.ls_decoder_new(ctypes.byref(decoder), self.handle,
                                           ctypes.c_int(special)))
        for i in ids:
            self.check(self.lib.ls_decoder_push(
                decoder, ctypes.c_int64(i), ctypes.byref(text),
                ctypes.byref(n)))
            out += ctypes.string_at(text, n.value)
        self.check(self.lib.ls_decoder_finish(decoder, ctypes.byref(text),
                                              ctypes.byref(n)))
        out += ctypes.string_at(text, n.value)
        self.lib.ls_decoder_free(ctypes.byref(decoder))
        return out.decode()


class Training(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t),
                ("vocabulary", ctypes.c_int64), ("least", ctypes.c_int64),
                ("pattern", ctypes.c_int),
                ("special", ctypes.POINTER(ctypes.c_char_p)),
                ("n_special", ctypes.c_size_t)]


def train(path, size, llama3):
    """The tokenizer.json that is learnt from one file."""
    lib = ctypes.CDLL(os.environ["LOCKSTEP_LIBRARY"])
    lib.ls_last_error.restype = ctypes.c_char_p
    group, tokenizer = ctypes.c_void_p(), ctypes.c_void_p()
    how = Training(ctypes.sizeof(Training), size, 1, int(llama3),
                   (ctypes.c_char_p * 1)(b"<|endoftext|>"), 1)
    paths = (ctypes.c_char_p * 1)(path.encode())
    out = f"{path}.json".encode()
    for status in (
            lambda: lib.ls_group_open_threads(ctypes.byref(group), 1),
            lambda: lib.ls_tokenizer_new_trained(
                ctypes.byref(tokenizer), group, paths, ctypes.c_size_t(1),
                ctypes.byref(how)),
            lambda: lib.ls_tokenizer_save(tokenizer, out)):
        if status() != 0:
            raise ValueError(lib.ls_last_error().decode())
    lib.ls_tokenizer_close(ctypes.byref(tokenizer))
    lib.ls_group_close(ctypes.byref(group))
    with open(out, encoding="utf-8") as file:
        return file.read()

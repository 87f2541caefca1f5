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
        ids, n = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_int64()
        self.check(self.lib.ls_tokenizer_encode(
            self.handle, data, ctypes.c_size_t(len(data)),
            ctypes.c_bool(special), ctypes.byref(n), ctypes.byref(ids)))
        out = ids[:n.value]
        self.lib.ls_free(ids)
        return out

    def decode(self, ids, special=True):
        text, n = ctypes.c_void_p(), ctypes.c_size_t()
        self.check(self.lib.ls_tokenizer_decode(
            self.handle, (ctypes.c_int64 * len(ids))(*ids),
            ctypes.c_int64(len(ids)), ctypes.c_bool(special),
            ctypes.byref(n), ctypes.byref(text)))
        out = ctypes.string_at(text, n.value).decode()
        self.lib.ls_free(text)
        return out

    def stream(self, ids, special=True):
        """The same text token by token."""
        decoder, out = ctypes.c_void_p(), b""
        text, n = ctypes.c_void_p(), ctypes.c_size_t()
        self.check(self.lib.ls_decoder_new(ctypes.byref(decoder), self.handle,
                                           ctypes.c_bool(special)))
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

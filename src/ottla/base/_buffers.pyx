# cython: language_level=3
"""Memory that Python does not fill with zeros. `buffers.py` describes its purpose."""

from cpython.bytearray cimport PyByteArray_FromStringAndSize


def uninitialized(Py_ssize_t size):
    if size < 0:
        raise ValueError("negative size")
    return PyByteArray_FromStringAndSize(NULL, size)

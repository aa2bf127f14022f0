"""Reading ZIP archives that may be damaged, or made by anybody."""

import errno
import lzma
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from zipfile import BadZipFile

__all__ = ["DamagedZip", "unpacking"]


class DamagedZip(Exception):
    """An archive that cannot be unpacked. The message names the kind of the fault, which is its cause."""


@contextmanager
def unpacking(*more: type[Exception]) -> Iterator[None]:
    """Raises DamagedZip for whatever ``zipfile`` raises in this block for a damaged archive, a missing member
    (KeyError), or one that is encrypted or packed in another way (RuntimeError), and for ``more``: what a
    reader of the content raises. OSError stays what it is, but where it says that a place or a content is
    impossible.
    """
    try:
        yield
    except OSError as fault:
        if fault.errno not in (None, errno.EINVAL):
            raise
        raise DamagedZip(type(fault).__name__) from fault
    except (*_DAMAGE, *more) as fault:
        raise DamagedZip(type(fault).__name__) from fault


_DAMAGE: Final[tuple[type[Exception], ...]] = (
    BadZipFile,
    EOFError,
    IndexError,  # a member without a name, on Python 3.11
    KeyError,
    OverflowError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    zlib.error,
)

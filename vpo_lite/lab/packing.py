"""Bytes as text that can be pasted, and back within limits: for share codes and recordings."""

import base64
import binascii
import zlib

import numpy as np

_SAFE = b"-_"  # instead of + and /: a share code can stand in an address


def packed(data: bytes, *, safe: bool = False) -> str:
    """Compressed, in base64; safe: of letters, digits, - and _ alone.

    >>> unpacked(packed(b"VPO"), most=3)
    b'VPO'
    """
    return _as_text(zlib.compress(data, 9), safe)


def unpacked(text: str, *, most: int, safe: bool = False) -> bytes:
    """The bytes in a text of :func:`packed`. No more than ``most`` are ever unpacked.

    Raises ValueError for a text that :func:`packed` cannot have made.
    """
    try:
        padding = "=" * (-len(text) % 4) if safe else ""
        data = base64.b64decode(text + padding, altchars=_SAFE if safe else None, validate=True)
    except ValueError as error:
        why = error if isinstance(error, binascii.Error) else "it is no base64"
        raise ValueError(f"cannot be unpacked ({why})") from error
    if _as_text(data, safe) != text:
        raise ValueError("cannot be unpacked (its end is not as it was written)")
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(data, most + 1)
    except zlib.error as error:
        raise ValueError(f"cannot be unpacked ({error})") from error
    if len(found) > most:
        raise ValueError(f"unpacks to more than {most:,} bytes")
    if not stream.eof:
        raise ValueError("cannot be unpacked (it is cut)")
    if stream.unused_data:
        raise ValueError("cannot be unpacked (something follows its end)")
    return found


def packed_numbers(values, dtype: str) -> str:
    """Numbers as :func:`packed` text of this dtype."""
    return packed(np.asarray(values, dtype).tobytes())


def unpacked_numbers(text: str, dtype: str, count: int, *, least=-np.inf, most=np.inf):
    """The ``count`` numbers in a text of :func:`packed_numbers`, as an array (count,).

    Raises ValueError for another count and for a number below ``least`` or above ``most``.

    >>> unpacked_numbers(packed_numbers([3, 1], "<i4"), "<i4", 2, most=3).tolist()
    [3, 1]
    """
    size = count * np.dtype(dtype).itemsize
    data = unpacked(text, most=size)
    if len(data) != size:
        raise ValueError(f"holds {len(data):,} bytes; {count:,} numbers need {size:,}")
    numbers = np.frombuffer(data, dtype)
    outside = (numbers < least) | (numbers > most)
    if outside.any():
        raise ValueError(f"holds {numbers[outside][0]}: expected {least} to {most}")
    return numbers


def _as_text(data: bytes, safe: bool) -> str:
    text = base64.b64encode(data, altchars=_SAFE if safe else None).decode()
    return text.rstrip("=") if safe else text

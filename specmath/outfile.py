"""Files that are written: refused before the work where they cannot be, put in place whole.

A file is replaced without being asked only where its beginning shows that it was written here and
is of the kind now written: each kind of file has a mark.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path

from specmath.checks import InputError

__all__ = [
    "BENCHMARK", "CHECKPOINT", "COMPARISON", "PAGE", "REPORT", "ROLLOUT", "SCENARIO", "TABLE",
    "refuse", "write_file",
]  # fmt: skip

TABLE = re.compile(rb"\bspecmath_version(?:[,;]date[,;]|</t>)")
REPORT = re.compile(rb'\A\{\s*"schema_version"')
COMPARISON = re.compile(rb"\Asegment,temperature,gamma,tokens,steps,")
SCENARIO = re.compile(rb'\Aspecmath = "')
ROLLOUT = re.compile(rb'\Aspecmath_rollout = "')
CHECKPOINT = re.compile(rb'\A\{\s*"specmath_checkpoint"')
PAGE = re.compile(rb'<meta name="generator" content="specmath')
BENCHMARK = re.compile(rb'\A\{\s*"specmath_version"')

_HEAD = 1 << 16
"""Bytes read of a file in search of the mark."""


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write the bytes to the path whole or not at all: a temporary file beside it, then a rename.

    Raises OSError where it cannot be written; an existing file is then as it was.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        # A device or pipe such as /dev/null must not be replaced by a file.
        target.write_bytes(data)
        return
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def refuse(path: str | os.PathLike[str], mark: re.Pattern[bytes], *, force: bool = False) -> None:
    """Raise InputError where `write_file` could not write to the path, or should not.

    It should not replace a file without the mark, unless it is empty or `force` is given.
    """
    try:
        target = Path(path).resolve()
        exists, regular = target.exists(), target.is_file()
        if target.is_dir():
            raise InputError(f"cannot write {path}: it is a folder")
        if exists and not os.access(target, os.W_OK):
            raise InputError(f"cannot write {path}: it is read-only")
        if regular or not exists:
            with tempfile.TemporaryFile(dir=target.parent):
                pass
        known = not regular or force or _marked(target, mark)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    if not known:
        raise InputError(f"{path} exists and was not written by this command; --force replaces it")


def _marked(path: Path, mark: re.Pattern[bytes]) -> bool:
    """Whether the file is empty or has the mark near its beginning, a workbook in its texts."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"PK"):
        try:
            with zipfile.ZipFile(path) as book, book.open("xl/sharedStrings.xml") as texts:
                head = texts.read(_HEAD)
        except (KeyError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error):
            return False
    return not head or mark.search(head) is not None

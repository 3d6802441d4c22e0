"""What the operating system says of a file or a folder, as an error of ours with a next step."""

from __future__ import annotations

import errno
from typing import Final

from mirrorlake.errors import MachineError

_ROOM = "Make room on its disk, and run the command again"
_WRITABLE = "Make it writable for this user, or name another place"
_FOLDERS = "See that each folder above it is there, and is a folder; or name another place"
_STEPS: Final = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: _ROOM,
    errno.EROFS: _WRITABLE,
    errno.EACCES: _WRITABLE,
    errno.EPERM: _WRITABLE,
    errno.ENOENT: _FOLDERS,
    errno.ENOTDIR: _FOLDERS,
    errno.EISDIR: _FOLDERS,
    errno.ENAMETOOLONG: "Name a shorter place",
    errno.EIO: "See what the machine says of its disk, and run the command again",
}
"""What a person can do about it. Any other error may be a fault of ours, and stays what it is."""


def file_error(error: OSError) -> MachineError | None:
    """The error in our words; None where no file or folder is what is wrong.

    >>> print(file_error(FileNotFoundError(errno.ENOENT, "No such file or directory", "/a/b")))
    /a/b: No such file or directory. See that each folder above it is there, and is a folder; or name another place
    """  # noqa: E501 - as it is printed
    step = _STEPS.get(error.errno or 0)
    if step is None:
        return None
    where = error.filename2 or error.filename or "a file"
    return MachineError(f"{where}: {error.strerror}", next_step=step, retryable=False)

"""What the system's errors mean, in words for the owner of a workload. They name no folder of the installation."""

import errno
import os

# The errors of a disk, or of a person's share of it, that takes no more.
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def said(error: OSError) -> str:
    """The reason alone: which file of ours it was helps nobody who reads it."""
    if error.errno in NO_SPACE:
        return (
            "no space is left on the disk of the machine that it was to run on; free some there, then submit it again"
        )
    return os.strerror(error.errno) if error.errno else type(error).__name__

"""The user that this process runs as."""

from __future__ import annotations

import os
import pwd


def user_name() -> str:
    """Return a user name for folders.

    It is the environment's, otherwise the user database's, otherwise `uid-` and the number.

    A container may run under any number (`docker run --user`, OpenShift), which the image's database does not have.
    """
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):  # as getpass.getuser, and other programs, take it
        if name := os.environ.get(variable):
            return name
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid-{os.getuid()}"

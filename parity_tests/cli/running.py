"""Runs the command ``jaxfocal``, in this process or in one of its own."""

import sys

from jaxfocal import cli


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "jaxfocal", *args]


def exit_status(*args: str) -> int | str | None:
    """Of the command run in this process, whether it returns it or tyro exits with it."""
    try:
        return cli.main(args)
    except SystemExit as error:
        return error.code

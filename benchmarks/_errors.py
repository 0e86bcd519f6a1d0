"""What the command line says in one sentence instead of a traceback."""


class UsageError(Exception):
    """The command asks for something that cannot be had here."""

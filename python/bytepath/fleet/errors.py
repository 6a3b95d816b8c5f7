"""What ends a command: what failed, with the likely cause and what to try."""


class FleetError(Exception):
    """Ends the command with its text and exit code 1."""


class WrongUsage(FleetError):
    """Ends the command with its text and exit code 2."""


class Lost(FleetError):
    """The scheduler, or all workers, are gone. What was recorded stays good."""

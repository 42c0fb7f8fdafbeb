"""What can go wrong outside a candidate. A bad kernel is a value (`trial.Status`); these are exceptions.

Every message says what happened, where, and what to do next: it is shown to the person as it stands.
"""


class CutegenError(Exception):
    """Root of every error the workbench raises on purpose; its text is written for the person."""


class UsageError(CutegenError):
    """The person or a caller asked for something that does not exist or does not fit."""


class KernelFileError(CutegenError):
    """The kernel file cannot be read as one: bad TOML, a bad expression, a broken limit.

    Attributes:
        line: 1-based line in the kernel file, 0 when the whole file is meant.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.line = line


class ProblemError(CutegenError):
    """A problem file cannot be loaded, traced or reduced; the text names the file and the reason."""


class MachineError(CutegenError):
    """The machine failed, not the candidate: a worker died, a compiler is missing, the disk is full."""


class WorkerLimitError(MachineError):
    """A worker ran past its time or memory limit. Stages turn it into a verdict where the candidate is the cause."""


class BudgetError(CutegenError):
    """The next model call does not fit into what is left."""


LOOKS_ON = "You look on with a viewer's link: everything can be read, nothing can be run, changed or uploaded."


class AccessError(CutegenError):
    """A viewer asked for what only the owner may do."""


class StoreError(CutegenError):
    """The workspace cannot be read or written."""


class StaleDecisionError(CutegenError):
    """The decision was made on something that has changed since it was shown."""


class LeaseError(StoreError):
    """Another process is the writer of this session."""


class StoppedError(CutegenError):
    """The person stopped the work; what was running is abandoned and leaves no verdict."""

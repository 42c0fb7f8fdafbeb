"""Errors outside a candidate; a bad kernel is a value (`trial.Status`), not an error.

Every message says what happened, where, and what to do next: the page and the command line show it unchanged.
"""

from __future__ import annotations

TYPE_CHECKING = False  # every sandboxed tool waits for the imports of this module, and `typing` is the longest
if TYPE_CHECKING:
    from cutegen_core.records.decision import Limit


class CutegenError(Exception):
    """Root of all errors that the workbench raises on purpose; its text is written for the user."""


class UsageError(CutegenError):
    """The user or a caller asked for something that does not exist or does not fit."""


class KernelFileError(CutegenError):
    """The kernel file is invalid: bad TOML, a bad expression, or a value beyond a limit.

    Attributes:
        line: 1-based line in the kernel file, 0 for the whole file.
        what: the message without the line, for those who show that apart.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.line, self.what = line, message


class KernelFileTooLargeError(KernelFileError):
    """There is more text, or more launches or buffers, than a kernel file may hold."""


class ProblemError(CutegenError):
    """A problem file cannot be loaded, traced or reduced; the text names the file and the reason."""


class MachineError(CutegenError):
    """The machine failed, not the candidate: a worker died, a compiler is missing, the disk is full."""


class WorkerLimitError(MachineError):
    """A worker exceeded its time or memory limit. A stage turns this into a verdict if the candidate is the cause."""


class BudgetError(CutegenError):
    """The next model call would exceed the session's budget; `spent` says which."""

    def __init__(self, message: str, spent: Limit) -> None:
        super().__init__(message)
        self.spent = spent


LOOKS_ON = "You look on with a viewer's link: everything can be read, nothing can be run, changed or uploaded."


class AccessError(CutegenError):
    """A viewer asked for something that only the owner may do."""


class StoreError(CutegenError):
    """The workspace cannot be read or written."""


class StoreGoneError(StoreError):
    """The store's file was deleted or replaced while it was open."""


class StaleDecisionError(CutegenError):
    """The thing decided on has changed since the page showed it."""


class LeaseError(StoreError):
    """Another process holds the right to write this session."""


class StoppedError(CutegenError):
    """The user stopped the work; the running trial is abandoned and has no verdict."""

"""The BENCHMARK stage on a GPU: one candidate on one workload, right at that size and timed beside its baselines.

1. The device's lock is taken; the wait is recorded.
2. The judge draws several buffer sets of fresh values on the GPU and hands their memory to the candidate's runner.
3. The candidate runs once on set 0, before any expected value exists. Then the judge computes the reference and
   compares the whole output: wrong, crashed or hung ends it here.
4. Rounds are interleaved, A B C ... C B A, until the samples are enough. In a round each timed set is used once, by a
   freshly loaded module, outputs poisoned and L2 flushed before each sample; after each round of the candidate its
   outputs are verified at random positions that only the judge knows.
5. Samples taken while the clocks were throttled by heat are dropped and counted.
6. A fresh process measures the candidate again; more than 2 % apart and beyond the noise is UNSTABLE.

Torch-free and without a CUDA context: the judge and the runners are processes of their own.
"""

from __future__ import annotations

from types import TracebackType

from cutegen_core.device import Device
from cutegen_core.judge.reference import Reference
from cutegen_core.measurement.contest import Contest, Measured, Watcher


class Timer:
    """Measures candidates of one problem on one device; keeps the judge process warm until `close`.

    Args:
        reference: gives signature, graph and source of a workload; its worker is only asked, never timed.
        device: a present one.
    """

    def __init__(self, reference: Reference, device: Device) -> None:
        self.reference = reference
        self.device = device

    def measure(self, contest: Contest, watch: Watcher) -> Measured:
        """Checks and times one candidate on one workload.

        Raises:
            StoppedError: the person stopped it; between two rounds at the latest.
            ProblemError: the reference fails on this device.
            MachineError: the device, the driver or a process of ours failed; there is no verdict.
        """
        raise NotImplementedError  # until 09:40; the interface is what counts for now

    def warm_up(self) -> None:
        """Starts the judge process (torch, CUDA context, 4-8 s) so that the first measurement need not wait."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends the judge process and gives its memory back."""

    def __enter__(self) -> Timer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

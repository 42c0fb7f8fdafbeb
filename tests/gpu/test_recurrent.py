"""Recurrent layers on a GPU: cuDNN keeps weights in a buffer of its own, which the judge's values must reach."""

from pathlib import Path

import pytest

from cutegen_core import cli
from cutegen_core.machine.device import detect

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(detect() is None, reason="needs a CUDA GPU")]
FILE = """import torch, torch.nn as nn
batch, steps, given, width, layers = 10, 40, 24, 64, 2
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(given, width, layers, batch_first=True, bidirectional=True)
    def forward(self, x):
        return self.layers(x)[0]
def get_inputs():
    return [torch.randn(batch, steps, given)]
"""


def test_every_kernel_passes_and_the_last_one_again_on_fresh_values(tmp_path: Path) -> None:
    file = tmp_path / "lstm.py"
    file.write_text(FILE)
    assert cli.main(["run", "--problem", str(file), "--proposer", "playbook", "--auto", "--executor", "gpu"]) == 0

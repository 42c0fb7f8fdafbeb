"""Softmax over rows: the row must be seen twice, so it is kept on the chip."""

import torch
import torch.nn as nn

TITLE = "Softmax over rows"
WORKLOADS = {'ragged': {'role': 'emulator', 'batch_size': 5, 'dim': 1021}}
TOLERANCE = {"float32": {"atol": 1e-6, "rtol": 1e-4}}


class Model(nn.Module):
    """Softmax over rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [batch_size, dim], float32; result: the same."""
        return torch.softmax(x, dim=1)


batch_size = 5
dim = 1021


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []

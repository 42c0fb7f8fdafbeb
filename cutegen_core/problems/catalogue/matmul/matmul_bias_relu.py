"""A linear layer and its ReLU: bias and activation belong into the product's epilogue."""

import torch
import torch.nn as nn

TITLE = "Linear layer with ReLU"
WORKLOADS = {
    "one": {"role": "emulator", "batch_size": 1, "in_features": 1, "out_features": 1},
    "ragged": {"role": "emulator", "batch_size": 37, "in_features": 53, "out_features": 41},
    "tile": {"role": "emulator", "batch_size": 64, "in_features": 32, "out_features": 64},
    "tile+1": {"role": "emulator", "batch_size": 65, "in_features": 33, "out_features": 65},
    "thin": {"role": "emulator", "batch_size": 3, "in_features": 130, "out_features": 97},
    "large_scale": {
        "role": "emulator",
        "batch_size": 19,
        "in_features": 47,
        "out_features": 23,
        "values": "large_scale",
    },
    "sparse": {"role": "emulator", "batch_size": 33, "in_features": 40, "out_features": 17, "values": "sparse"},
    "medium": {"role": "correctness", "batch_size": 257, "in_features": 509, "out_features": 263},
}
TOLERANCE = {"float32": {"atol": 1e-4, "rtol": 1e-4}}


class Model(nn.Module):
    """Linear layer with ReLU."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [batch_size, in_features]; result: [batch_size, out_features], float32."""
        return torch.relu(self.linear(x))


batch_size = 1024
in_features = 8192
out_features = 8192


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features]

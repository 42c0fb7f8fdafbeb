"""Twice the ReLU: a tiny problem with an existing kernel, for walks through the roles."""

import torch

M, N = 8, 64


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0


WORKLOADS = {
    "tiny": {"role": "emulator", "M": 3, "N": 5},
    "small": {"role": "benchmark", "M": 8, "N": 64},
    "wide": {"role": "benchmark", "M": 2, "N": 512},
}
EXISTING = "double_relu.cu"


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []

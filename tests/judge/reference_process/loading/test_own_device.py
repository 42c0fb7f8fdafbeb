"""Files that name a GPU, or compile what they compute, load without either: their tensors lie where the workbench
runs them."""

import pytest

from cutegen_core.judge.reference import Reference
from cutegen_core.records.graph import Graph
from cutegen_core.records.problem import Problem, Workload, WorkloadRole

SMALL = Workload("small", WorkloadRole.EMULATOR)
MODEL = """
import torch
import torch.nn as nn
device = torch.device("cuda:1")
{before}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4{layer}){moved}
        self.register_buffer("shift", {buffer})
    def forward(self, x):
        return {forward}
def get_inputs():
    return [{inputs}]
"""
PLAIN = {
    "before": "", "layer": "", "moved": "", "buffer": "torch.ones(4)", "inputs": "torch.rand(3, 8)",
    "forward": "self.linear(x) + self.shift",
}  # fmt: skip
NAMED = {
    "an argument": {"inputs": "torch.rand(3, 8, device='cuda')"},
    "an argument with a number": {"inputs": "torch.rand(3, 8, device='cuda:3')"},
    "a device": {"inputs": "torch.rand(3, 8, device=device)"},
    "a method of the tensor": {"inputs": "torch.rand(3, 8).cuda()"},
    "a method with a number": {"inputs": "torch.rand(3, 8).cuda(1)"},
    "to": {"inputs": "torch.rand(3, 8).to('cuda')"},
    "to, by name": {"inputs": "torch.rand(3, 8).to(device=device, non_blocking=True)"},
    "to, with a dtype": {"inputs": "torch.rand(3, 8).to(device, torch.float32)"},
    "new tensors like others": {"inputs": "torch.rand(3, 8).new_ones((3, 8), device='cuda')"},
    "numbers": {"buffer": "torch.tensor([1.0] * 4, device='cuda')"},
    "a module": {"moved": ".cuda()"},
    "a module, to": {"moved": ".to('cuda')"},
    "a module, to another dtype": {"moved": ".to('cuda', torch.float64).float()"},
    "a layer that takes the device": {"layer": ", device='cuda'"},
    "a block": {"before": "with torch.device('cuda'):\n    SHIFT = torch.ones(4)", "buffer": "SHIFT"},
    "compiled": {
        "before": "torch.compile(lambda x: x)\n@torch.compile(dynamic=True)\ndef twice(x):\n    return x * 2",
        "moved": "\n        self.compile()",
        "forward": "twice(self.linear(x)) + self.shift",
    },
    "the default": {"before": "torch.set_default_device('cuda')"},
    "in forward": {"forward": "self.linear(x.cuda()) + torch.ones(4, device='cuda') * self.shift.to('cuda')"},
}


@pytest.mark.by_default(6)
@pytest.mark.parametrize("how", NAMED)
def test_a_file_that_names_a_gpu_loads_without_one(how, tmp_path):
    text = MODEL.format(**{**PLAIN, **NAMED[how]})
    with Reference(Problem("p", "p", text, "/p.py", (SMALL,)), tmp_path) as reference:
        signature, graph = reference.signature(SMALL), reference.graph(SMALL)
        paths = reference.write_inputs(SMALL, 1)
    assert [spec.shape for spec in signature.outputs] == [(3, 4)]
    assert isinstance(graph, Graph)
    assert graph.nodes, graph.reason
    assert paths


TIED = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.rnn = nn.RNN(8, 8)
        self.half()
        self.float()
    def forward(self, x):
        return self.second(self.first(x)) + self.rnn(x)[0]
def get_inputs():
    return [torch.rand(3, 8)]
"""


def test_converted_modules_keep_what_they_share(tmp_path):
    with Reference(Problem("p", "p", TIED, "/p.py", (SMALL,)), tmp_path) as reference:
        names = [spec.name for spec in reference.signature(SMALL).inputs]
        traced = reference.graph(SMALL)
    assert "first_weight" in names
    assert "second_weight" not in names
    assert traced.nodes, traced.reason

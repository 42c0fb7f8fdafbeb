"""The playbook's element, row, scan, loss and attention kernels on the GPU of this machine, in turns with torch.

    python -m benchmarks.kernels.rows [--only softmax attention-fp16 ...] [--name NAME] [--budget-s 100]

1. The playbook writes the last kernel of every case for this device; it is compiled, only the launch that the case's
   size takes. Meanwhile some processes run torch.compile on the cases, so that its cache has them.
2. In one process each kernel, the eager reference and its compiled form run in turns over the same tensors, each sample
   after a flush of the L2. The kernel's whole result is held against the eager one's.

A row is printed as soon as it is there; `results/NAME.json`, rows_h200 by default, has them all. Shares are of the copy
bandwidth measured first in the same process, bytes counted once for each input and output; those of attention are of
the peak.
`--compile-only` ends after the first step and needs no GPU. `--only` takes beginnings of names.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import conditions
from benchmarks.kernels.choices import KernelMaker, Made, Params, Row, compile_to, only, problem_of, read_choices
from benchmarks.kernels.in_turns import (
    PEAK_TFLOPS,
    Warmers,
    compared,
    copy_bandwidth,
    in_turns,
    ratios,
    run_on,
    tell,
    tell_begun,
    visible_gpus,
)
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel import kernel_file
from cutegen_core.machine.device import choose_device
from cutegen_core.propose import playbook
from cutegen_core.records.problem import Problem

WARMING_SHARE, SETUP_SHARE = 0.4, 0.85
"""Of the budget: when the processes that warm torch.compile's cache are stopped, and when no case is begun any more."""
HEADER = "import torch, torch.nn as nn, torch.nn.functional as F"


@dataclass(frozen=True)
class RowsCase:
    """A reference as one expression, and its inputs as code of the sizes.

    Attributes:
        choices: values of parameters to try beside each other; those that a kernel does not have are left out.
        flops: of its products, as code of the sizes; none: it is measured by its bytes.
    """

    name: str
    forward: str
    sizes: Mapping[str, int]
    draw: Mapping[str, str]
    choices: Sequence[Params] = ({},)
    flops: str = ""

    @property
    def problem(self) -> Problem:
        return problem_of(self.name, HEADER, self.sizes, self.draw, self.forward)

    def drawn(self) -> tuple[Callable[..., Any], list[Any]]:
        """Return the reference as a function, and its inputs on the GPU."""
        import torch

        torch.manual_seed(0)
        scope: dict[str, Any] = dict(self.sizes)
        exec(f"{HEADER}\ndef forward({', '.join(self.draw)}):\n    return {self.forward}\n", scope)
        with torch.device("cuda"):
            return scope["forward"], [eval(code, scope) for code in self.draw.values()]


def _rows(name: str, forward: str, sizes: str, choices: Sequence[Params] = ({},), **draw: str) -> RowsCase:
    """Make a case of sizes such as "4096 8192", named A, B, ... in the drawing code; `x` has them all by default."""
    named = dict(zip("ABCD", map(int, sizes.split()), strict=False))
    return RowsCase(name, forward, named, {"x": f"torch.randn({', '.join(named)})"} | draw, choices)


def _attention(name: str, sizes: str, dtype: str, causal: bool = False, choices: Sequence[Params] = ({},)) -> RowsCase:
    named = dict(zip("BHMD", map(int, sizes.split()), strict=True))
    one = f"torch.randn(B, H, M, D, dtype=torch.{dtype})"
    forward = f"F.scaled_dot_product_attention(q, k, v{', is_causal=True' if causal else ''})"
    flops = f"4 * B * H * M * M * D{' / 2' if causal else ''}"
    return RowsCase(name, forward, named, {"q": one, "k": one, "v": one}, choices, flops)


_BF16 = "torch.randn(A, B, dtype=torch.bfloat16)"
_HALVES: Mapping[str, str] = {
    "exp": "torch.exp(x)", "sigmoid": "torch.sigmoid(x)", "tanh": "torch.tanh(x)", "silu": "F.silu(x)",
    "gelu": "F.gelu(x)", "gelu-tanh": "F.gelu(x, approximate='tanh')", "mish": "F.mish(x)",
    "softplus": "F.softplus(x)", "log-sigmoid": "F.logsigmoid(x)", "elu": "F.elu(x)", "selu": "F.selu(x)",
    "hardswish": "F.hardswish(x)", "softsign": "F.softsign(x)", "erf": "torch.erf(x)",
}  # fmt: skip
"""Activations, timed on bfloat16."""
_TEAMS: Sequence[Params] = ({}, {"TEAM": 26}, {"WRITERS": 512}, {"TEAM": 1})
"""Teams, smaller ones, more who write, and clusters."""
_SECOND_TEAMS: Sequence[Params] = ({}, {"WRITERS2": 512}, {"TEAM2": 1})
"""Of the second kernel of a file: as chosen, more who write, and clusters."""
_MEGABYTE: Sequence[Params] = (
    {},
    {"PERSIST_THREADS": 256, "PERSIST_EACH": 4},
    {"PERSIST_THREADS": 512, "PERSIST_EACH": 2},
)
"""As chosen, and few threads or many, each with more vectors or fewer."""
_ONE_ROW: Sequence[Params] = ({}, {"TEAM": 6}, {"TEAM": 4})
"""The same of shorter rows."""
_VECTORS: Sequence[Params] = (
    {}, {"BLOCK": 512, "ITEMS": 2}, {"BLOCK": 512, "ITEMS": 1}, {"BLOCK": 256, "ITEMS": 1}, {"BLOCK": 128, "ITEMS": 1},
    {"BLOCK": 128, "ITEMS": 2},
)  # fmt: skip
"""Vectors in flight: a block's threads, and those of a thread."""
_BLOCKS: Sequence[Params] = ({}, {"BLOCK": 256}, {"BLOCK": 128})
_SORTING: Sequence[Params] = ({}, {"BLOCK1": 256}, {"BLOCK1": 1024})
_SEGMENTS: Sequence[Params] = ({}, {"BX2": 64}, {"BX2": 256}, {"BY2": 2})
_LAYER: Mapping[str, str] = {"w": "torch.randn(B)", "b": "torch.randn(B)"}
_CHANNEL: Mapping[str, str] = {"w": "torch.randn(B)", "b": "torch.randn(B)"}
CASES: Sequence[RowsCase] = (
    _attention("attention-fp16-128", "4 16 4096 128", "float16", choices=({}, {"BN": 176}, {"TURNS": 0})),
    _attention("attention-fp16-128-causal", "4 16 4096 128", "float16", causal=True, choices=({}, {"TURNS": 0})),
    _attention("attention-fp16-64", "4 32 4096 64", "float16", choices=({}, {"GROUPS": 2}, {"TURNS": 0})),
    _attention("attention-fp16-1024", "8 32 512 1024", "float16"),
    _attention("attention-bf16-128", "4 16 4096 128", "bfloat16"),
    _attention("attention-fp16-odd", "2 16 2047 72", "float16"),
    _attention("attention-fp32-64", "2 16 2048 64", "float32"),
    _attention("attention-fp32-128-causal", "2 16 2048 128", "float32", causal=True),
    _attention("attention-fp32-1024", "8 16 512 1024", "float32"),
    _rows("relu", "torch.relu(x)", "16384 32768", _VECTORS),
    _rows("relu-small", "torch.relu(x)", "16384 4096", _VECTORS),
    _rows("relu-odd", "torch.relu(x)", "16385 32767", _VECTORS),
    _rows("relu-fp16", "torch.relu(x)", "32768 32768", _VECTORS, x="torch.randn(A, B, dtype=torch.float16)"),
    _rows("gelu", "F.gelu(x)", "16384 32768", _VECTORS),
    _rows("sigmoid-odd", "torch.sigmoid(x)", "16383 32769"),
    _rows("new-gelu", "0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3))))", "8192 8192"),
    _rows("bias-silu", "F.silu(x + b)", "32768 8192", ({}, {"ITEMS": 2}, {"ITEMS": 4}, {"BLOCK": 256}, {"ONCE": 2}),
          b="torch.randn(B)"),
    _rows("bias-silu-odd", "F.silu(x + b)", "32768 8191", b="torch.randn(B)"),
    _rows("add", "x + y", "16384 16384", _VECTORS, y="torch.randn(A, B)"),
    *(_rows(f"bf16-{name}", forward, "16384 32768", x=_BF16) for name, forward in _HALVES.items()),
    _rows("bf16-swiglu", "F.silu(x) * y", "16384 32768", x=_BF16, y=_BF16),
    _rows("bf16-geglu", "F.gelu(x) * y", "16384 32768", x=_BF16, y=_BF16),
    _rows("embedding", "F.embedding(i, x) * 32", "131072 1024", i="torch.randperm(A)"),
    _rows("gather", "torch.gather(x, 1, i) * 2", "65536 1024", i="torch.randint(0, B, (A, B))"),
    _rows("softmax-4096", "torch.softmax(x, -1)", "65536 4096"),
    _rows("softmax-4095", "torch.softmax(x, -1)", "65536 4095"),
    _rows("softmax-fp16-4095", "torch.softmax(x, -1)", "65536 4095", x="torch.randn(A, B, dtype=torch.float16)"),
    _rows("softmax-1000", "torch.softmax(x, -1)", "131073 1000"),
    _rows("softmax-16384", "torch.softmax(x, -1)", "16384 16384", ({}, {"ITEMS": 4})),
    _rows("softmax-20000", "torch.softmax(x, -1)", "26000 20000", ({}, {"THREADS": 1024})),
    _rows("softmax-20001", "torch.softmax(x, -1)", "26000 20001", ({}, {"THREADS": 1024})),
    _rows("softmax-65536", "torch.softmax(x, -1)", "8192 65536", _ONE_ROW),
    _rows("softmax-131072", "torch.softmax(x, -1)", "4096 131072",
          ({}, {"TEAM": 12}, {"TEAM": 8})),
    _rows("softmax-long", "torch.softmax(x, -1)", "2048 262144", _MEGABYTE),
    _rows("softmax-393216", "torch.softmax(x, -1)", "1024 393216", _TEAMS),
    _rows("softmax-393215", "torch.softmax(x, -1)", "1024 393215", _TEAMS),
    _rows("softmax-fp16-long", "torch.softmax(x, -1)", "2048 393216", _MEGABYTE,
          x="torch.randn(A, B, dtype=torch.float16)"),
    _rows("softmax-few", "torch.softmax(x, -1)", "8 262144"),
    _rows("softmax-fp16", "torch.softmax(x, -1)", "32768 8192", ({}, {"ITEMS": 4}, {"ITEMS": 4, "RESIDENT": 512}),
          x="torch.randn(A, B, dtype=torch.float16)"),
    _rows("log-softmax-long", "torch.log_softmax(x, -1)", "2048 262144", _MEGABYTE),
    _rows("log-softmax-393216", "torch.log_softmax(x, -1)", "1024 393216", _TEAMS),
    _rows("layer-norm-25000", "F.layer_norm(x, (B,), w, b)", "20000 25000", (*_MEGABYTE, {"THREADS": 1024}), **_LAYER),
    _rows("layer-norm-32768", "F.layer_norm(x, (B,), w, b)", "16384 32768", _MEGABYTE, **_LAYER),
    _rows("layer-norm-50000", "F.layer_norm(x, (B,), w, b)", "10240 50000", _MEGABYTE, **_LAYER),
    _rows("layer-norm-65536", "F.layer_norm(x, (B,), w, b)", "8192 65536", _MEGABYTE, **_LAYER),
    _rows("rms-norm-25000", "F.rms_norm(x, (B,), w)", "20000 25000", _MEGABYTE, w="torch.randn(B)"),
    _rows("rms-norm-65536", "F.rms_norm(x, (B,), w)", "8192 65536", _MEGABYTE, w="torch.randn(B)"),
    _rows("layer-norm-bf16-65536", "F.layer_norm(x, (B,), w, b)", "16384 65536", _MEGABYTE,
          x="torch.randn(A, B).bfloat16()", w="torch.randn(B).bfloat16()", b="torch.randn(B).bfloat16()"),
    _rows("layer-norm-long", "F.layer_norm(x, (B,), w, b)", "2048 262144", _MEGABYTE, **_LAYER),
    _rows("softmax-fp16-131072", "torch.softmax(x, -1)", "6144 131072", (*_MEGABYTE, {"TEAM": 1}),
          x="torch.randn(A, B, dtype=torch.float16)"),
    _rows("softmax-fp16-65536", "torch.softmax(x, -1)", "16384 65536", _MEGABYTE,
          x="torch.randn(A, B, dtype=torch.float16)"),
    _rows("layer-norm-131072", "F.layer_norm(x, (B,), w, b)", "4096 131072", _MEGABYTE, **_LAYER),
    _rows("layer-norm-bf16-long", "F.layer_norm(x, (B,), w, b)", "3072 262144", _MEGABYTE,
          x="torch.randn(A, B).bfloat16()", w="torch.randn(B).bfloat16()", b="torch.randn(B).bfloat16()"),
    _rows("rms-norm-131072", "F.rms_norm(x, (B,), w)", "4096 131072", _MEGABYTE, w="torch.randn(B)"),
    _rows("layer-norm-196608", "F.layer_norm(x, (B,), w, b)", "2730 196608", _MEGABYTE, **_LAYER),
    _rows("rms-norm-bf16-long", "F.rms_norm(x, (B,), w)", "3072 262144", _MEGABYTE,
          x="torch.randn(A, B).bfloat16()", w="torch.randn(B).bfloat16()"),
    _rows("layer-norm-393216", "F.layer_norm(x, (B,), w, b)", "1024 393216", _TEAMS, **_LAYER),
    _rows("rms-norm-393216", "F.rms_norm(x, (B,), w)", "1024 393216", _TEAMS, w="torch.randn(B)"),
    _rows("instance-norm-large", "F.instance_norm(x)", "16 64 768 768", _SECOND_TEAMS),
    _rows("rms-norm-long", "F.rms_norm(x, (B,), w)", "2048 262144", _MEGABYTE, w="torch.randn(B)"),
    _rows("layer-norm-4096", "F.layer_norm(x, (B,), w, b)", "65536 4096", ({}, {"LATE": 1}), **_LAYER),
    _rows("layer-norm-4095", "F.layer_norm(x, (B,), w, b)", "65536 4095", **_LAYER),
    _rows("layer-norm-bf16-4095", "F.layer_norm(x, (B,), w, b)", "65536 4095", ({}, {"RESIDENT": 1024}),
          x="torch.randn(A, B).bfloat16()", w="torch.randn(B).bfloat16()", b="torch.randn(B).bfloat16()"),
    _rows("layer-norm-fp16", "F.layer_norm(x, (B,), w, b)", "32768 8192", ({}, {"LATE": 1}, {"ITEMS": 4, "LATE": 1}),
          x="torch.randn(A, B).half()", w="torch.randn(B).half()", b="torch.randn(B).half()"),
    _rows("layer-norm-16384", "F.layer_norm(x, (B,), w, b)", "16384 16384", ({}, {"LATE": 0}, {"ITEMS": 4}), **_LAYER),
    _rows("layer-norm-large", "F.layer_norm(x, (B, C, D), w, b)", "16 64 256 256",
          w="torch.randn(B, C, D)", b="torch.randn(B, C, D)"),
    _rows("rms-norm-4096", "F.rms_norm(x, (B,), w)", "65536 4096", w="torch.randn(B)"),
    _rows("rms-norm-channels", "x / torch.sqrt(torch.mean(x ** 2, dim=1, keepdim=True) + 1e-5)", "32 64 512 512"),
    _rows("rms-norm-channels-weight", "x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5) * w", "32 96 256 512",
          w="torch.randn(B, 1, 1)"),
    _rows("softmax-channels", "torch.softmax(x, 1)", "32 96 256 512",
          ({}, {"RESIDENT": 768}, {"BY": 16, "ITEMS": 6, "RESIDENT": 1024})),
    _rows("softmax-channels-192", "torch.softmax(x, 1)", "32 192 256 256"),
    _rows("softmax-channels-97", "torch.softmax(x, 1)", "32 97 256 512", ({}, {"BX": 32, "RESIDENT": 576})),
    _rows("softmax-channels-67", "torch.softmax(x, 1)", "32 67 256 512"),
    _rows("softmax-channels-131", "torch.softmax(x, 1)", "16 131 256 512", ({}, {"BX": 32, "RESIDENT": 960})),
    _rows("softmax-channels-odd", "torch.softmax(x, 1)", "32 97 255 511", ({}, {"RESIDENT": 576})),
    _rows("rms-norm-channels-odd", "x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5) * w", "32 96 255 511",
          ({}, {"RESIDENT": 768}), w="torch.randn(B, 1, 1)"),
    _rows("group-norm", "F.group_norm(x, 8, w, b)", "32 64 512 512", _SECOND_TEAMS, **_CHANNEL),
    _rows("instance-norm", "F.instance_norm(x)", "32 64 512 512", _MEGABYTE),
    _rows("batch-norm", "F.batch_norm(x, None, None, w, b, training=True)", "32 64 512 512", **_CHANNEL),
    _rows("frobenius", "x / torch.norm(x, p='fro')", "32 64 512 512"),
    _rows("l2-norm-65535", "x / torch.norm(x, p=2, dim=1, keepdim=True)", "8192 65535", _ONE_ROW),
    _rows("sum-last", "torch.sum(x, -1)", "65536 4096"),
    _rows("sum-last-4095", "torch.sum(x, -1)", "131073 4095"),
    _rows("sum-middle", "torch.sum(x, 1, keepdim=True)", "32 4096 4095"),
    _rows("sum-first", "torch.sum(x, 0)", "65536 8192"),
    _rows("sum-first-few", "torch.sum(x, 0)", "1048576 256"),
    _rows("sum-long", "torch.sum(x, -1)", "2048 262144"),
    _rows("sum-few", "torch.sum(x, -1)", "16 4194304",
          ({}, {"THREADS": 256}, {"SPLITS": 64}, {"THREADS": 256, "SPLITS": 64})),
    _rows("sum-all", "torch.sum(x)", "16384 32768"),
    _rows("max-middle", "torch.amax(x, 1)", "32 4096 4095"),
    _rows("argmax-middle", "torch.argmax(x, 1)", "32 4096 4095"),
    _rows("argmax-last", "torch.argmax(x, -1)", "2048 262144"),
    _rows("cumsum", "torch.cumsum(x, 1)", "16384 32768", _BLOCKS),
    _rows("cumsum-odd", "torch.cumsum(x, 1)", "16384 32767", _BLOCKS),
    _rows("cumsum-few", "torch.cumsum(x, 1)", "16 4194304"),
    _rows("sort-1024", "x.sort(1)[0]", "65536 1024", _SORTING),
    _rows("sort-4096", "x.sort(1)[0]", "16384 4096", _SORTING),
    _rows("sort-50257", "x.sort(1)[0]", "256 50257", _SORTING),
    _rows("topk-50-of-50257", "x.topk(50)[0]", "256 50257", _SORTING),
    _rows("topk-50-of-4096", "x.topk(50)[0]", "16384 4096", _SORTING),
    _rows("median-4096", "x.median(1)[0]", "16384 4096", _SORTING),
    _rows("index-add", "x.index_add(0, i, m)", "100000 64", _SEGMENTS, i="torch.randint(0, A, (10 * A,))",
          m="torch.randn(10 * A, B)"),
    _rows("index-add-messages", "x.index_add(0, d, x[s])", "100000 64", _SEGMENTS, s="torch.randint(0, A, (10 * A,))",
          d="torch.randint(0, A, (10 * A,))"),
    _rows("scatter-add", "x.scatter_add(0, k, m)", "10000 64", _SEGMENTS, k="torch.randint(0, A, (10 * A, B))",
          m="torch.randn(10 * A, B)"),
    _rows("rms-128", "F.rms_norm(x, (B,))", "1048576 128"),
    _rows("rms-128-half", "F.rms_norm(x, (B,))", "2097152 128", x="torch.randn(A, B).half()"),
    _rows("softmax-60", "torch.softmax(x, -1)", "2097152 60"),
    _rows("layer-norm-32", "F.layer_norm(x, (B,))", "4194304 32"),
    _rows("linear-one-row", "F.linear(x, w)", "8192 16384", x="torch.randn(1, A)", w="torch.randn(B, A)"),
    _rows("linear-one-row-half", "F.linear(x, w)", "8192 16384", x="torch.randn(1, A).half()",
          w="torch.randn(B, A).half()"),
    _rows("mlp-one-row", "F.linear(F.gelu(F.linear(x, w)), v)", "8192 16384", x="torch.randn(1, A)",
          w="torch.randn(B, A)", v="torch.randn(A, B)"),
    _rows("bmm-one-column", "torch.bmm(x, y)", "64 2048 1024", y="torch.randn(A, C, 1)"),
    _rows("one-query", "F.scaled_dot_product_attention(q, x, v)", "16 32 2048 128", q="torch.randn(A, B, 1, D)",
          v="torch.randn(A, B, C, D)"),
    _rows("one-query-half", "F.scaled_dot_product_attention(q, x, v)", "16 32 2048 128",
          x="torch.randn(A, B, C, D).half()", q="torch.randn(A, B, 1, D).half()", v="torch.randn(A, B, C, D).half()"),
    _rows("one-query-wide", "F.scaled_dot_product_attention(q, x, v)", "8 1 4096 4096", q="torch.randn(A, B, 1, D)",
          v="torch.randn(A, B, C, D)"),
    _rows("cross-entropy", "F.cross_entropy(x, y)", "65536 4096", ({}, {"ITEMS1": 4}), y="torch.randint(0, B, (A,))"),
    _rows("mse", "torch.mean((x - y) ** 2)", "16384 16384", y="torch.randn(A, B)"),
    _rows("kl-div", "F.kl_div(torch.log(x), y, reduction='batchmean')", "16384 8192",
          x="torch.softmax(torch.randn(A, B), -1)", y="torch.softmax(torch.randn(A, B), -1)"),
    _rows("triplet", "F.triplet_margin_loss(x, y, z)", "32768 8192", y="torch.randn(A, B)", z="torch.randn(A, B)"),
)  # fmt: skip


class LastKernelMaker(KernelMaker):
    """Compiles the last kernel of each case, with each of its choices."""

    def _jobs(self, case: Any) -> Iterator[Any]:  # noqa: ANN401 - what `KernelMaker` calls a job
        reference = Reference(case.problem, self.folder, worker=self._worker)
        own = case.problem.workloads[0]
        graph, signature = reference.graph(own), reference.signature(own)
        try:
            last = playbook.propose(graph, signature, case.name, playbook.Target.of(self.device, case.problem))[-1]
        except playbook.NotInPlaybook as reason:
            print(f"{case.name}: {reason}", flush=True)
            return
        file = kernel_file.parse(last.source)
        for params in case.choices:
            if set(params) <= {p.name for p in file.params}:
                plan = file.plan(signature, self.device, {**file.defaults(), **params})
                yield case, last.name, only(file, plan), params, plan, signature


# ---- torch.compile's cache


def warm(names: Sequence[str]) -> None:
    """Run torch.compile on these cases, so that its cache has them; leave the name of each on standard output."""
    import torch

    for name in names:
        forward, inputs = _named(name).drawn()
        torch._dynamo.reset()  # else it stops compiling after a few functions of one name
        torch.compile(forward)(*inputs)
        torch.cuda.synchronize()
        print(name, flush=True)
        del forward, inputs
        torch.cuda.empty_cache()


# ---- in turns, in a process of its own


def direct(folder: Path, names: Sequence[str], warmed: Sequence[str], deadline: float) -> None:
    """Measure every case of `names`; print a row for each choice."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    bandwidth = copy_bandwidth(torch)
    tell({"case": "copy", "gbs": bandwidth})
    for name in names:
        made = read_choices(folder, name)
        if time.time() > deadline:
            print(f"{name}: no time left", flush=True)
        elif made:
            tell_begun(name)
            for row in _direct_case(torch, _named(name), made, bandwidth, compiled=name in warmed):
                tell(row)
            torch.cuda.empty_cache()


def _direct_case(
    torch: Any,  # noqa: ANN401
    case: RowsCase,
    choices: Sequence[Made],
    bandwidth: float,
    *,
    compiled: bool,
) -> Iterator[Row]:
    from cutegen_core.execute.cuda.driver import DriverError
    from cutegen_core.execute.cuda.launching import DeviceTensor, LaunchRefused, LoadedProgram

    forward, inputs = case.drawn()
    expected = forward(*inputs)
    out = torch.empty(expected.shape, dtype=expected.dtype, device="cuda")  # contiguous, which attention's may not be
    places = {n: DeviceTensor(t.data_ptr(), t.nbytes, False) for n, t in zip(case.draw, inputs, strict=True)}
    places["out"] = DeviceTensor(out.data_ptr(), out.nbytes, True)
    stream = torch.cuda.current_stream().cuda_stream
    contenders: dict[str, Callable[[], Any]] = {"eager": lambda: forward(*inputs)}
    if compiled:
        torch._dynamo.reset()
        made_by_torch = torch.compile(forward)
        made_by_torch(*inputs)
        contenders["compile"] = lambda: made_by_torch(*inputs)
    loaded: dict[str, LoadedProgram] = {}
    rows, keep = [], []
    for made in choices:
        row: Row = {"case": case.name, "kernel": made.name, "params": dict(made.params)} | made.facts
        rows.append(row)
        spaces = {s.name: torch.zeros(max(1, s.nbytes), device="cuda", dtype=torch.uint8) for s in made.program.scratch}
        keep.append(spaces)
        try:
            program = LoadedProgram(made.cubin, made.program, [places], {n: t.data_ptr() for n, t in spaces.items()})
        except (LaunchRefused, DriverError) as refused:
            row["failure"] = str(refused)
            continue
        out.fill_(float("nan") if out.is_floating_point() else -1)
        program.run(stream, 0)
        torch.cuda.synchronize()
        row |= _exact(torch, case, inputs, out, expected) if case.flops else compared(torch, out, expected)
        loaded[made.name] = program
        contenders[made.name] = lambda program=program: program.run(stream, 0)
    del expected
    medians = in_turns(torch, contenders)
    nbytes = out.nbytes + sum(t.nbytes for t in inputs)
    for row in rows:
        if row["kernel"] in loaded:
            us = medians[row["kernel"]]
            row |= {"us": round(us, 2), "us_eager": round(medians["eager"], 2)}
            row |= {"us_compile": round(medians["compile"], 2)} if compiled else {}
            row |= {f"vs_{name}": round(medians[name] / us, 3) for name in ("eager", "compile") if name in medians}
            row |= _rate(case, us, nbytes, bandwidth, str(inputs[0].dtype).removeprefix("torch."))
        yield row
    for program in loaded.values():
        program.unload()


def _rate(case: RowsCase, us: float, nbytes: int, bandwidth: float, dtype: str) -> Row:
    if case.flops:
        tflops = 1e-6 * float(eval(case.flops, dict(case.sizes))) / us
        return {"tflops": round(tflops, 1), "share": round(tflops / PEAK_TFLOPS[dtype], 4)}
    gbs = 1e-3 * nbytes / us
    return {"gbs": round(gbs, 1), "share": round(gbs / bandwidth, 4)}


def _exact(torch: Any, case: RowsCase, inputs: Sequence[Any], out: Any, expected: Any) -> Row:  # noqa: ANN401
    """Return whether attention is as near to float64 as torch's is: the last head, and all of it to torch's."""
    alone = [t[-1:, -1:].double() for t in inputs]
    causal = "is_causal" in case.forward
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        exact = torch.nn.functional.scaled_dot_product_attention(*alone, is_causal=causal)
    ours, torchs = ((one[-1:, -1:].double() - exact).abs().max().item() for one in (out, expected))
    row = compared(torch, out, expected)
    near = ours <= 2 * torchs + 1e-6 * exact.abs().max().item() and row["far"] < 2.0**-5
    return row | {"error": ours, "error_of_torch": torchs, "right": bool(near)}


def _named(name: str) -> RowsCase:
    return next(case for case in CASES if case.name == name)


def _again(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.kernels.rows", *arguments]


def show(row: Row) -> None:
    """Print one row."""
    if row["case"] == "copy":
        print(f"copy {row['gbs']:.0f} GB/s", flush=True)
        return
    kernel = row.get("kernel") or f"{row['level']} {row['params'] or ''}"
    spent = f"{row.get('registers', ''):>4} regs {row.get('spilled', ''):>3} B"
    head = f"{row['case']:26} {kernel:24} {spent}"
    if "us" in row:
        rate = f"{row['tflops']:7.1f} TFLOP/s" if "tflops" in row else f"{row['gbs']:7.0f} GB/s   "
        wrong = "" if row["right"] else f"WRONG by {row.get('far', row.get('same')):.1e}"
        print(head, f"{row['us']:9.1f} us {rate} {row['share']:6.3f}  {ratios(row)}", wrong, flush=True)
    else:
        print(head, row.get("failure", ""), f"compiled in {row.get('compile_s')} s", flush=True)


def main() -> int:
    asked = _arguments()
    if asked.warm:
        warm(asked.warm)
        return 0
    if asked.direct:
        direct(Path(asked.direct), asked.names, asked.warmed, asked.deadline)
        return 0
    begun, device = time.monotonic(), choose_device(None)
    cases = [c for c in CASES if not asked.only or c.name.startswith(tuple(asked.only))]
    with tempfile.TemporaryDirectory(prefix="cutegen-rows-") as scratch:
        folder, kept = Path(scratch), Path(scratch) / "made"
        kept.mkdir()
        os.environ |= {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        (gpu,) = visible_gpus(1)
        shares = [] if asked.compile_only else [cases[k :: asked.warmers] for k in range(asked.warmers)]
        warmers = Warmers([_again("--warm", *(c.name for c in share)) for share in shares if share], [gpu])
        maker = LastKernelMaker(device, folder, asked.compilers)
        _, rows = compile_to(kept, maker, cases, show, show_all=asked.compile_only)
        print(f"compiled in {time.monotonic() - begun:.0f} s", flush=True)
        if not asked.compile_only:
            warmed = warmers.finish(WARMING_SHARE * asked.budget_s - (time.monotonic() - begun))
            print(f"torch.compile has {len(warmed)} of {len(cases)} at {time.monotonic() - begun:.0f} s", flush=True)
            until = time.time() + SETUP_SHARE * asked.budget_s - (time.monotonic() - begun)

            def command(left: Sequence[str]) -> list[str]:
                kinds = ("--direct", str(kept), "--deadline", str(until))
                return _again(*kinds, "--names", *left, "--warmed", *sorted(warmed))

            rows += run_on(gpu, [c.name for c in cases], command, show)
            conditions.write(asked.name, {"device": asdict(device), "rows": rows})
    return int(any(not row.get("right", True) for row in rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--name", default="rows_h200")
    parser.add_argument("--budget-s", type=float, default=100.0)
    parser.add_argument("--compilers", type=int, default=max(1, min(10, (os.cpu_count() or 2) - 2)))
    parser.add_argument("--warmers", type=int, default=max(1, min(5, (os.cpu_count() or 2) // 3)))
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--warm", nargs="*", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--direct", default="", help=argparse.SUPPRESS)
    parser.add_argument("--names", nargs="*", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--warmed", nargs="*", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, default=0.0, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

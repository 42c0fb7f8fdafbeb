"""The ablation asks a model for every strategy, and says how their kernels compare; without a key it says so."""

import json
import os
import signal
import subprocess
import sys

import pytest

from benchmarks.guide.ablation import Run, compared, report
from cutegen_core.machine.workspace import cache_dir
from tests.few_runs import few_runs_file
from tests.model_server import ModelServer, reply

RELU = """Idea: {idea}
```cpp
/* cutegen
[[launch]]
kernel = "relu"
grid = ["ceil_div(x.numel, 256)"]
block = [256]
args = ["x", "out", "x.numel"]
*/
{include}__global__ void relu(float const* x, float* out, long n) {{
  long i = long(blockIdx.x) * 256 + threadIdx.x;
  if (i < n) out[i] = x[i] < 0.0f ? 0.0f : x[i];
}}
```
"""


def command(*arguments, home, key="a-key"):
    """Run it in a workspace of its own, with the compilers' caches of the usual one."""
    home.mkdir()
    (home / "cache").symlink_to(cache_dir("").resolve())
    environment = {name: value for name, value in os.environ.items() if name != "CUTEGEN_API_KEY"}
    environment |= {"CUTEGEN_HOME": str(home), **({"CUTEGEN_API_KEY": key} if key else {})}
    whole = [sys.executable, "-m", "benchmarks.guide.ablation", *map(str, arguments)]
    ran = subprocess.run(whole, capture_output=True, text=True, check=False, env=environment)
    if (lock := home / "engine.lock").exists():
        os.kill(int(lock.read_text()), signal.SIGTERM)
    return ran


def test_without_a_key_it_says_so_and_asks_nobody(tmp_path):
    ran = command(home=tmp_path / "home", key="")
    assert ran.returncode == 2
    assert "CUTEGEN_API_KEY is not set" in ran.stderr


def played(request):
    """Return a model that does what each strategy's prompt asks for, and writes CuTe first where it may not."""
    prompt = request.prompt
    if "## Current kernel" in prompt:
        return reply("DONE: nothing else is worth trying", size=400)
    refused = "## Your answer could not be used" in prompt
    include = "" if refused else "#include <cute/tensor.hpp>\n"
    return reply(RELU.format(idea="one thread each", include=include), size=400)


def run_over_relu(tmp_path, *strategies):
    """Run it; return the prompts, what was found by strategy, and the report."""
    folder = tmp_path / "set"
    folder.mkdir()
    few_runs_file("relu", folder, "relu")
    with ModelServer(played) as server:
        ran = command(
            "--set", folder, "--strategies", ",".join(strategies), "--base-url", server.base_url,
            "--model", "test-model", "--max-steps", 2, "--out", tmp_path, "--name", "found",
            home=tmp_path / "home",
        )  # fmt: skip
        prompts = [request.prompt for request in server.asked]
    assert ran.returncode == 0, ran.stderr
    text = (tmp_path / "found.md").read_text()
    assert text.strip().endswith(ran.stdout.strip().splitlines()[-1])
    return prompts, json.loads((tmp_path / "found.json").read_text())["strategies"], text


@pytest.mark.thorough
def test_a_strategy_is_run_over_the_set_and_reported(tmp_path):
    prompts, found, _ = run_over_relu(tmp_path, "cutegen-one-shot")
    assert ["## This step: the only one" in prompt for prompt in prompts] == [True]
    assert [(run["problem"], run["outcome"], run["calls"]) for run in found["cutegen-one-shot"]] == [
        ("relu", "passed", 1)
    ]


@pytest.mark.thorough
def test_each_strategy_is_run_over_the_set_and_compared(tmp_path):
    prompts, found, text = run_over_relu(tmp_path, "cutegen", "cutegen-cuda", "cutegen-one-shot")
    seed, done, cuda, again, cuda_done, only = prompts
    assert "## This step: the seed" in seed
    assert "ideas not tried yet" in done.lower()
    assert "one plain CUDA C++ kernel" in cuda
    assert "<cute/tensor.hpp>" not in cuda
    assert "it uses CuTe or CUTLASS" in again
    assert cuda_done.startswith(cuda[:200])
    assert "## This step: the only one" in only
    assert {name: [run["calls"] for run in runs] for name, runs in found.items()} == {
        "cutegen": [2], "cutegen-cuda": [3], "cutegen-one-shot": [1],
    }  # fmt: skip
    assert "| CuTeGen's loop with CUDA instead of CuTe | 1 of 1 | 1.00x the estimate (1) | not timed |" in text


def run(problem, latency=None, estimate=None, outcome="passed"):
    return Run(problem, "s", outcome, "", latency, estimate, None, 1, 1, 10, 1.0)


def test_kernels_are_compared_by_time_and_only_without_any_by_estimate():
    first = [run("a", 10.0, 9.0), run("b", 20.0, 18.0), run("c", None, 5.0)]
    assert compared(first, [run("a", 20.0), run("b", 80.0), run("d", 1.0)]) == (pytest.approx(8**0.5), 2, "time")
    assert compared(first, [run("c", None, 10.0), run("a", None, None)]) == (pytest.approx(2.0), 1, "estimate")
    assert compared(first, [run("d", 1.0)]) == (None, 0, "time")
    lines = report({"cutegen": first, "cutegen-no-menus": [run("a", outcome="no kernel passed")]})
    assert "| a | 10 us, 1 steps, 10 tokens | no kernel passed |" in lines
    assert "| b | 20 us, 1 steps, 10 tokens | - |" in lines

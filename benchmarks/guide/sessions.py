"""What a model is told, and what an improvement costs: five sessions, answered as a capable model would.

python -m benchmarks.guide.sessions  (minutes on the emulator; the last sweep and test are left out)

The model is played over HTTP; store, loop, compiler, emulator and judge are real. Its kernels are the playbook's, from
naive to tuned, so the script knows which of its replies are real improvements; its mistakes are the usual ones. What a
prompt says changes what it does: told that a change of defaults is no promotion, it makes none; told which names are
CuTe's, it does not take one.

The sessions are played in variants (`VARIANTS`): whether a question may stand behind the exchange before it. A kernel
is tried once; the other variants take its verdict from the store.

A prompt's stable part is what it shares, from its beginning, with an earlier prompt of the session, or with one and its
reply where the server keeps replies (what its prefix cache keeps); the rest is new. Tokens are estimates
(`propose.tokens`). Each call is put down to the part of the prompt that its tokens lie in, and to what it brought: a
gain, a seed, a failure or its repair, a question asked again, a kernel that is no better, the word that nothing is
left.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.conditions import write
from cutegen_core.machine.workspace import cache_dir
from cutegen_core.problems import library
from cutegen_core.propose import playbook
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.propose.playbook.variants import Variant
from cutegen_core.propose.replies.parsing import ParsedReply, parse_reply
from cutegen_core.propose.tokens import estimate_tokens
from cutegen_core.propose.turns import shared
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind, Effort
from cutegen_core.records.event import AnsweredBy, Outcome
from cutegen_core.records.problem import Problem
from cutegen_core.session import start
from cutegen_core.session.loop import Session
from cutegen_core.trajectory.state import State, Step
from cutegen_core.trajectory.store import Store
from cutegen_core.wiring import Tools
from tests.few_runs import few_runs
from tests.model_server import Answer, ModelServer, Recorded, reply

DATA = Path(__file__).parents[2] / "tests" / "data" / "guide"
COLLISION = "__device__ float product(float a, float b) { return a * b; }\n"
COLLISION += "template <int N> __device__ float times(float a) { return product(a, float(N)); }\n"
MISTAKES: Mapping[str, tuple[str, ...]] = {
    "layernorm": ("defaults", "worse"),
    "matmul_square": ("collision", "defaults"),
    "conv_instance_norm": ("wrong place", "spoiled block"),
    "attention": ("collision", "defaults"),
    "layernorm_1024": ("misquoted block", "worse"),
}
SLIPS: Mapping[str, str] = {"spoiled block": "// as it was\n", "misquoted block": "  int const as_it_was = 0;\n"}
"""What a SEARCH text has that the kernel does not: a comment, or a line of code."""
ONLY_VALUES = (("layernorm", "tuned"), ("layernorm_1024", "tuned"), ("attention", "tuned"))
"""Kernels that only declare more values than the one before: a matter for the sweep."""
PARTS: Mapping[str, str] = {
    "## A minimal valid kernel file": "form until the first pass",
    "## A verified kernel of the same class": "form until the first pass",
    "## Current kernel": "the current kernel",
    "## The kernel that failed": "the current kernel",
    "## Evidence": "evidence",
    "## Diagnosis": "evidence",
    "## Profile of the current kernel": "evidence",
    "## What was tried so far": "history",
    "## Your last reply could not be used": "asked again",
    "## Your answer could not be used": "asked again",
    "## Refused": "asked again",
    "## This step": "menu and task",
    "## Your answer": "form of the answer",
}
"""Where the tokens of a prompt lie, by its headings; what stands before the first of them is the stable beginning."""
_CODE = re.compile(r"^```cpp\n(/\* cutegen.*?)^```$", re.MULTILINE | re.DOTALL)
_DEFAULT = re.compile(r"(\w+) += \{ default = (\d+), +values = \[([\d, ]+)\]")


class Way(NamedTuple):
    """How the sessions are played, and counted.

    Attributes:
        conversation: the session's setting.
        replies_kept: the server keeps what it wrote, not only prompts.
    """

    conversation: bool
    replies_kept: bool = False


VARIANTS: Mapping[str, Way] = {
    "each prompt afresh": Way(False),
    "conversation": Way(True, True),
    "conversation, replies not kept": Way(True),
}
KEPT_PRICE = 0.1
"""What a kept token costs, of the price of a new one, in the sums that count both."""


class Asked(NamedTuple):
    """A question as the model took it: all messages as one text, the last of them, and the reply."""

    kind: str
    prompt: str
    message: str
    reply: str


@dataclass
class CapableModel:
    """Plays one session: its kernels in order, with this problem's mistakes; then DONE, and `at_end`.

    Attributes:
        base: the kernel that the question is about: the one it shows, else the one that the model wrote before, or
            `before` that, where its last one was not taken.
    """

    kernels: Sequence[Variant]
    mistakes: set[str]
    at_end: Callable[[], object]
    next: int = 0
    mended: str = ""
    base: str = ""
    before: str = ""
    asked: list[Asked] = field(default_factory=list)

    def answer(self, request: Recorded) -> Answer:
        message = request.question
        self.base = _shown(message) or (self.before if "It was not taken" in message else self.base)
        kind = _kind(message, first=not self.base)
        text = self._text(kind, request.prompt)
        self.asked.append(Asked(kind, request.prompt, message, text))
        found = parse_reply(text, self.base or None)
        self.before = self.base
        self.base = found.source if isinstance(found, ParsedReply) else found.partial or self.base
        return reply(text, size=4000)

    def _text(self, kind: str, prompt: str) -> str:
        if kind == "diagnosis":
            return "Cause: see the evidence\nEvidence: its first line\nFix: the smallest change there is"
        if kind == "again" and self.mended and "Your other blocks fit" in prompt:
            return self.mended
        if kind in ("repair", "again"):
            return _whole(self.kernels[self.next - 1])
        return self._step(prompt)

    def _step(self, prompt: str) -> str:
        if self.next == 2 and self._makes("defaults") and "no promotion" not in prompt:
            changed = _other_default(self.base)
            if changed:
                return changed
        if self.next == 2 and self._makes("worse"):
            slow = self.kernels[0]
            return _whole(slow, "simpler-indexing", f"{slow.source}// indexed more simply\n")
        if self.next >= len(self.kernels):
            self.at_end()
            return "DONE: the kernel is near what this card can do"
        self.next += 1
        return self._kernel(self.kernels[self.next - 1], prompt)

    def _kernel(self, kernel: Variant, prompt: str) -> str:
        if self.next == 1 and self._makes("collision") and "`product`" not in prompt:
            return _whole(kernel, source=kernel.source.replace("template <", COLLISION + "\ntemplate <", 1))
        if self.next == 2 and self._makes("wrong place"):
            head, body = kernel.source.split("*/", 1)
            return _whole(kernel, source=f"{head}*/{body.replace('blockIdx.x', '(blockIdx.x / 2)')}")
        slip = next((line for mistake, line in SLIPS.items() if self.next == 3 and self._makes(mistake)), "")
        if slip:
            text, self.mended = _blocks(kernel, self.base, slip)
            return text
        return _whole(kernel)

    def _makes(self, mistake: str) -> bool:
        made = mistake in self.mistakes
        self.mistakes.discard(mistake)
        return made


def _kind(message: str, *, first: bool) -> str:
    if "Do not write the new kernel yet" in message:
        return "diagnosis"
    if "## Your answer could not be used" in message or "## Refused" in message:
        return "again"
    return "repair" if "## This step: a repair" in message else "seed" if first else "step"


def _shown(message: str) -> str:
    """Return the kernel that a message is about, "" where it shows none: the last below such a heading."""
    _, heading, below = re.sub("## The kernel that failed", "## Current kernel", message).rpartition(
        "## Current kernel"
    )
    found = _CODE.search(below) if heading else None
    return found[1] if found else ""


def _whole(kernel: Variant, name: str = "", source: str = "") -> str:
    idea = f"{name or kernel.name}: {kernel.idea}"
    return f"Idea: {idea}\nEffect: faster\nRisk: edges\n```cpp\n{source or kernel.source}```\n"


def _other_default(source: str) -> str:
    """Return a change of one default, its SEARCH text a piece of a line."""
    for name, default, values in _DEFAULT.findall(source):
        other = next((value for value in values.split(", ") if value != default), "")
        piece = next(line for line in source.splitlines() if line.startswith(f"{name} ") and "default" in line)
        cut = piece[: piece.index(",")]
        if other and source.count(cut) == 1:
            new = cut.replace(f"= {default}", f"= {other}")
            block = f"<<<<<<< SEARCH\n{cut}\n=======\n{new}\n>>>>>>> REPLACE"
            return f"Idea: {name.lower()}-{other}: {name} = {other}\nEffect: occupancy\nRisk: none\n{block}\n"
    return ""


def _blocks(kernel: Variant, base: str, slip: str) -> tuple[str, str]:
    """Return a kernel as blocks against its base, the last with a slip in its SEARCH text, and that block corrected."""
    old, new = base.splitlines(keepends=True), kernel.source.splitlines(keepends=True)
    groups = list(SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(3))
    texts = []
    for number, group in enumerate(groups, 1):
        before, after = old[group[0][1] : group[-1][2]], new[group[0][3] : group[-1][4]]
        right = f"<<<<<<< SEARCH\n{''.join(before)}=======\n{''.join(after)}>>>>>>> REPLACE\n"
        texts.append(right.replace("SEARCH\n", f"SEARCH\n{slip if number == len(groups) else ''}", 1))
    return f"Idea: {kernel.name}: {kernel.idea}\nEffect: faster\nRisk: edges\n" + "\n".join(texts), right


# ---- sessions


def problems() -> list[Problem]:
    with library.Loader() as loader:
        own = [loader.load(DATA / f"{name}.py") for name in ("conv_instance_norm", "attention", "layernorm_1024")]
    return [_small("layernorm"), _small("matmul_square"), *own]


def _small(name: str) -> Problem:
    """Return a built-in problem with one small workload, and its own benchmark."""
    few, whole = few_runs(name), library.load(name)
    return few.__class__(**{**vars(whole), "workloads": (few.workloads[0], whole.workloads[-1])})


def play(problem: Problem, store: Store, tools: Tools, way: Way) -> dict[str, Any]:
    effort = Effort(conversation=way.conversation)
    session = start.create(
        store, problem, answered_by=AnsweredBy.LLM, autonomy=Autonomy.AUTO, max_steps=16, effort=effort
    )
    settings = store.events(session)[0].event.settings  # type: ignore[union-attr]
    evaluator, workload = tools.evaluator(session, settings), problem.workloads[-1]
    written = playbook.propose(evaluator.graph(workload), evaluator.signature(workload), problem.name)
    kernels = [kernel for kernel in written if (problem.name, kernel.name) not in ONLY_VALUES]
    stop = partial(store.submit, session, Decision(DecisionKind.STOP))
    model = CapableModel(kernels, set(MISTAKES[problem.name]), stop)
    with ModelServer(model.answer) as server:
        model_settings.write(Models((ModelSettings("played", server.base_url, "played", context_tokens=200_000),)))
        state = Session(store, session, tools.of_session(session)).run()
    calls = _calls(model.asked, replies_kept=way.replies_kept)
    return _account(problem.name, state, calls, store, [kernel.source for kernel in kernels])


def _calls(asked: Sequence[Asked], *, replies_kept: bool) -> list[dict[str, Any]]:
    calls, earlier = [], list[str]()
    for each in asked:
        kept = max((len(shared(each.prompt, other)) for other in earlier), default=0)
        earlier.append(f"{each.prompt}\n\n{each.reply.strip()}" if replies_kept else each.prompt)
        total = estimate_tokens(each.prompt)
        before = each.prompt.removesuffix(each.message)
        new = total - estimate_tokens(each.prompt[:kept])
        parts = {**_parts(each.message), "the conversation before": estimate_tokens(before)}
        calls.append(
            {"kind": each.kind, "prompt": total, "new": new, "new before": max(0, estimate_tokens(before[kept:])),
             "reply": estimate_tokens(each.reply), "parts": {name: size for name, size in parts.items() if size}}
        )  # fmt: skip
    return calls


def _account(name: str, state: State, calls: list[dict[str, Any]], store: Store, sources: list[str]) -> dict[str, Any]:
    steps = [
        {"idea": s.idea[:60], "status": s.status, "outcome": s.outcome, "note": s.note[:160], "calls": len(s.calls)}
        for s in state.steps
    ]
    good = [sources.index(text) for s in state.steps if (text := _promoted(s, store)) in sources[1:]]
    gains = sum(kernel > max(good[:place], default=0) for place, kernel in enumerate(good))
    brought = (each for step in state.steps for each in _brought(step))
    calls = [{**call, "brought": what} for call, what in zip(calls, brought, strict=True)]
    hollow = [
        s.idea for s in state.steps[1:] if s.outcome is Outcome.PROMOTED and _promoted(s, store) not in sources[1:]
    ]
    return {
        "problem": name, "state": state.status, "reason": state.reason, "calls": calls, "steps": steps, "gains": gains,
        "promoted without being better": hollow,
    }  # fmt: skip


def _parts(prompt: str) -> dict[str, int]:
    """Count a prompt's tokens by part; they add up to the whole's but for the rounding of an estimate."""
    found, part = dict[str, int](), "stable beginning"
    for text in re.split(r"^(?=## )", prompt, flags=re.MULTILINE):
        part = next((name for heading, name in PARTS.items() if text.startswith(heading)), part)
        found[part] = found.get(part, 0) + estimate_tokens(text)
    return found


def _brought(step: Step) -> list[str]:
    """Return what each call of a step brought; all but its last one led to another question."""
    last = (
        "a word that nothing is left" if step.candidate is None
        else "seed" if step.number == 1
        else "gain" if step.outcome is Outcome.PROMOTED
        else "no better kernel" if step.passed
        else "failure"
    )  # fmt: skip
    return [*["another question"] * (len(step.calls) - 1), last] if step.calls else []


def _promoted(step: Step, store: Store) -> str:
    return store.text(step.candidate) if step.outcome is Outcome.PROMOTED and step.candidate else ""


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    calls = [call for row in rows for call in row["calls"]]
    gains = sum(row["gains"] for row in rows)
    later = [call for call in calls if call["kind"] != "seed"]
    spent = sum(call["prompt"] + call["reply"] for call in calls)
    paid = sum(call["new"] + call["reply"] for call in calls)
    return {
        "gains": gains, "calls": len(calls), "calls a gain": round(len(calls) / gains, 2),
        "tokens a gain": round(spent / gains), "new tokens a gain": round(paid / gains),
        "prompts a gain, kept tokens at a tenth": round(_input(calls) / gains),
        "calls a gain, without seeds and ends": round(_steps(calls) / gains, 2),
        "cached tokens a gain": round(sum(call["prompt"] - call["new"] for call in calls) / gains),
        "reply tokens a gain": round(sum(call["reply"] for call in calls) / gains),
        "seed prompt, largest": max(call["prompt"] for call in calls if call["kind"] == "seed"),
        "later prompt, mean": round(sum(call["prompt"] for call in later) / len(later)),
        "later prompt new, mean": round(sum(call["new"] for call in later) / len(later)),
        "later prompt new, largest": max(call["new"] for call in later),
        "later prompt new without its kernel, largest": max(_beside_kernel(call) for call in later),
        "promoted without being better": sum(len(row["promoted without being better"]) for row in rows),
        "tokens by part": _added((part, size) for call in calls for part, size in _spent(call)),
        "tokens by what they brought": _added((call["brought"], call["prompt"] + call["reply"]) for call in calls),
        "calls by what they brought": _added((call["brought"], 1) for call in calls),
    }  # fmt: skip


def _steps(calls: Sequence[Mapping[str, Any]]) -> int:
    return sum(call["brought"] not in ("seed", "a word that nothing is left") for call in calls)


def _spent(call: Mapping[str, Any]) -> list[tuple[str, int]]:
    return [*call["parts"].items(), ("reply", call["reply"])]


def _input(calls: Sequence[Mapping[str, Any]]) -> float:
    """Return what the prompts cost, in prices of a new token."""
    return sum(call["new"] + KEPT_PRICE * (call["prompt"] - call["new"]) for call in calls)


def _beside_kernel(call: Mapping[str, Any]) -> int:
    """Return the new tokens without the current kernel, which is new only after a promotion or a failure; in a
    conversation without the reply that wrote it."""
    kernel = call["parts"].get("the current kernel", 0) + call["new before"]
    return int(call["new"] - kernel if call["new"] > kernel else call["new"])


def _added(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    total = dict[str, int]()
    for name, size in pairs:
        total[name] = total.get(name, 0) + size
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="guide", help="results/NAME.json")
    parser.add_argument("--only", nargs="*", metavar="PROBLEM", help="of the five problems")
    parser.add_argument("--prompts", type=Path, help="a folder to write every prompt to")
    options = parser.parse_args()
    rows: dict[str, list[dict[str, Any]]] = {variant: [] for variant in VARIANTS}
    with tempfile.TemporaryDirectory(prefix="cutegen-guide-") as home:
        _settle(Path(home))
        store = Store(Path(home) / "store.db")
        tools = Tools(store)
        for problem in [each for each in problems() if not options.only or each.name in options.only]:
            for number, (variant, way) in enumerate(VARIANTS.items(), 1):
                rows[variant].append(play(problem, store, tools, way))
                _print(variant, rows[variant][-1])
                if options.prompts:
                    _keep_prompts(store, options.prompts, f"{problem.name}-{number}")
        tools.close()
        store.close()
    totals = {variant: summary(found) for variant, found in rows.items()}
    for variant, total in totals.items():
        print(variant, *(f"    {name:52} {value}" for name, value in total.items()), sep="\n")
    write(options.name, {"summary": totals, "rows": rows})


def _settle(home: Path) -> None:
    """Use a workspace of its own, with the compilers' caches of the usual one: models are set up in it."""
    caches = cache_dir("").resolve()
    (home / "cache").symlink_to(caches)
    os.environ["CUTEGEN_HOME"] = str(home)


def _print(variant: str, row: Mapping[str, Any]) -> None:
    print(f"== {row['problem']}, {variant}: {row['state']} ({row['reason']})")
    print(f"   {row['gains']} gains, {len(row['calls'])} calls")
    for call in row["calls"]:
        print(f"   {call['kind']:10} prompt {call['prompt']:6} new {call['new']:6} reply {call['reply']:5}")
    for step in row["steps"]:
        print(f"   {step['status'] or '-':20} {step['outcome'] or '-':22} {step['idea']}  | {step['note']}", flush=True)


def _keep_prompts(store: Store, folder: Path, name: str) -> None:
    from cutegen_core.trajectory.read import state_of

    folder.mkdir(parents=True, exist_ok=True)
    for step in state_of(store, store.sessions()[0]).steps:
        for number, call in enumerate(step.calls, 1):
            (folder / f"{name}-{step.number:02}-{number}-{call.role}.md").write_text(store.text(call.prompt))


if __name__ == "__main__":
    main()

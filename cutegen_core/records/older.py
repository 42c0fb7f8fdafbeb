"""Read what older versions wrote: stored JSON in an old form becomes JSON in today's form.

| written until | old form | today |
|---|---|---|
| 0.1 | settings `proposer` | `strategy` and `answered_by` |
| 0.1 | events `swept`, `profiled`, `ablated` | `studied` |
| 0.1 | decisions `profile`, `ablate` | `study` |
| 0.1 | failed trials with marks | failed trials carry none |
| 0.1 | metric `used of a 32-byte load` | `bytes used per 32 B sector, loads` |
| 0.1 | outcome `rewound` | outcome `went back` |

Recordings and stores keep the old form on disk; only what is read in memory changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_ANSWERED_BY = {"manual": "person", "replay": "recording"}
_STUDY_OF_DECISION = {"profile": "profile", "ablate": "ablation"}

_SECTOR = re.compile(r'\{"name":"used of a 32-byte (load|store)","value":([^,}]+),"unit":"byte"\}')

_Json = dict[str, Any]


def event(payload: str) -> str:
    """Return the JSON of an event as this version writes it."""
    if not any(mark in payload for mark in _MARKS):
        return payload
    raw = json.loads(payload)
    upgrade = _UPGRADES.get(str(raw.get("kind"))) if isinstance(raw, dict) else None
    return json.dumps(upgrade(raw)) if upgrade else payload


def decision(payload: str) -> str:
    """Return the JSON of a decision as this version writes it."""
    if not any(f'"{kind}"' in payload for kind in _STUDY_OF_DECISION):
        return payload
    raw = json.loads(payload)
    return json.dumps(_decision(raw)) if isinstance(raw, dict) else payload


def trial(payload: str) -> str:
    """Return the JSON of a trial as this version writes it."""
    if _NO_MARKS in payload or _PASSED in payload:
        return payload
    raw = json.loads(payload)
    return json.dumps({**raw, "marks": []}) if isinstance(raw, dict) and raw.get("status") != "PASSED" else payload


def metrics(payload: str) -> str:
    """Return the JSON of a trial or a profile with the names of metrics as this version writes them."""
    return _SECTOR.sub(r'{"name":"bytes used per 32 B sector, \1s","value":\2,"unit":""}', payload)


def _created(raw: _Json) -> _Json:
    settings = raw.get("settings")
    if not isinstance(settings, dict) or "proposer" not in settings:
        return raw
    proposer = settings.pop("proposer")
    settings["answered_by"] = _ANSWERED_BY.get(proposer, proposer)
    return raw


def _swept(raw: _Json) -> _Json:
    return {"kind": "studied", "study": "sweep", "candidate": "", "result": raw.get("rows"), "step": raw.get("step")}


def _profiled(raw: _Json) -> _Json:
    return _studied(raw, "profile", "profile")


def _ablated(raw: _Json) -> _Json:
    return _studied(raw, "ablation", "rows")


def _studied(raw: _Json, study: str, result: str) -> _Json:
    message = raw.get("message", "")
    candidate, found = raw.get("candidate"), raw.get(result)
    return {"kind": "studied", "study": study, "candidate": candidate, "result": found, "message": message}


def _closed(raw: _Json) -> _Json:
    return {**raw, "outcome": "went back"} if raw.get("outcome") == "rewound" else raw


def _decided(raw: _Json) -> _Json:
    if isinstance(raw.get("decision"), dict):
        raw["decision"] = _decision(raw["decision"])
    return raw


def _decision(raw: _Json) -> _Json:
    study = _STUDY_OF_DECISION.get(str(raw.get("kind")))
    return {**raw, "kind": "study", "study": study} if study else raw


_UPGRADES: Mapping[str, Callable[[_Json], _Json]] = {
    "session_created": _created, "swept": _swept, "profiled": _profiled, "ablated": _ablated, "decided": _decided,
    "step_closed": _closed,
}  # fmt: skip
_NO_MARKS, _PASSED = '"marks":[]', '"status":"PASSED","stages"'
_MARKS = ('"session_created"', '"swept"', '"profiled"', '"ablated"', '"profile"', '"ablate"', '"rewound"')
"""A payload without any of these is in today's form."""

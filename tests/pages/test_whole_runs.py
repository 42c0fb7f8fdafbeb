"""What a page has drawn reaches the browser also where a poll begins before it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.later import Later
from tests.patience import wait_until

if TYPE_CHECKING:
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
    from streamlit.runtime.app_session import AppSession

ClientState_pb2 = Later("streamlit.proto.ClientState_pb2")
ForwardMsg_pb2 = Later("streamlit.proto.ForwardMsg_pb2")
app_session = Later("streamlit.runtime.app_session")
memory_media_file_storage = Later("streamlit.runtime.memory_media_file_storage")
memory_uploaded_file_manager = Later("streamlit.runtime.memory_uploaded_file_manager")
runtime = Later("streamlit.runtime.runtime")
script_data = Later("streamlit.runtime.script_data")
script_cache = Later("streamlit.runtime.scriptrunner.script_cache")
whole_runs = Later("pages.components.shared.whole_runs")

PAGE = """
import streamlit as st
st.text("above")
@st.fragment(run_every=2)
def polled():
    st.text("polled")
polled()
st.text("below")
"""
DRAWN = ["above", "polled", "below"]
POLLED = ["polled"]


@pytest.fixture(autouse=True)
def _patched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit with the patch and a runtime of its own, for one test."""
    monkeypatch.setattr(runtime.Runtime, "_instance", None)
    for owner, name in whole_runs.PARTS:
        monkeypatch.setattr(owner, name, getattr(owner, name))
    whole_runs.keep()


@pytest.mark.parametrize("ended", [True, False], ids=["its thread has ended", "its thread has not ended"])
def test_a_poll_that_begins_before_a_page_was_sent_takes_nothing_of_it_away(tmp_path: Path, *, ended: bool) -> None:
    script = tmp_path / "page.py"
    script.write_text(PAGE if ended else PAGE + "import time\ntime.sleep(0.5)\n")
    sent = _run(_polled_before_it_was_sent(script, ended=ended))
    assert _texts(sent) == [*DRAWN, *POLLED]
    assert [message.script_finished for message in sent if message.HasField("script_finished")] == [
        ForwardMsg_pb2.ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg_pb2.ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY,
    ]  # fmt: skip


def test_a_page_that_is_drawn_anew_replaces_what_was_not_sent(tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(PAGE)
    assert _texts(_run(_drawn_twice(script))) == DRAWN


def _run(sent: Coroutine[None, None, list[ForwardMsg]]) -> list[ForwardMsg]:
    """Run it in a thread of its own: a browser's test leaves a loop that runs in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, sent).result()


async def _polled_before_it_was_sent(script: Path, *, ended: bool) -> list[ForwardMsg]:
    session = _session(script)
    session.request_rerun(None)
    storage = session._fragment_storage
    if ended:
        _wait_for_its_thread(session)
    else:
        wait_until(lambda: bool(storage._fragments), "no fragment")  # type: ignore[attr-defined]
    (fragment,) = storage._fragments  # type: ignore[attr-defined]
    session.request_rerun(ClientState_pb2.ClientState(fragment_id=fragment, is_auto_rerun=True))
    return await _all_sent(session)


async def _drawn_twice(script: Path) -> list[ForwardMsg]:
    session = _session(script)
    session.request_rerun(None)
    _wait_for_its_thread(session)
    session.request_rerun(None)
    return await _all_sent(session)


def _session(script: Path) -> AppSession:
    files = memory_uploaded_file_manager.MemoryUploadedFileManager("")
    runtime.Runtime(
        runtime.RuntimeConfig(str(script), None, memory_media_file_storage.MemoryMediaFileStorage(""), files)
    )
    session: AppSession = app_session.AppSession(
        script_data.ScriptData(str(script)), files, script_cache.ScriptCache(), None, {}
    )
    session.track_settling()
    return session


def _wait_for_its_thread(session: AppSession) -> None:
    """Wait on the event loop's thread: meanwhile, nothing arrives of what the page's thread draws."""
    assert session._scriptrunner is not None
    assert session._scriptrunner._script_thread is not None
    session._scriptrunner._script_thread.join()


async def _all_sent(session: AppSession) -> list[ForwardMsg]:
    while session._scriptrunner is not None:
        await asyncio.sleep(0.01)
    sent = session.flush_browser_queue()
    session.shutdown()
    return sent


def _texts(sent: list[ForwardMsg]) -> list[str]:
    texts = [message.delta.new_element.text.body for message in sent if message.HasField("delta")]
    return [text for text in texts if text]

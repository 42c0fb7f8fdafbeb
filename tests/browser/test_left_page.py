"""A poll of a page that was left meanwhile changes nothing: the next page is drawn once, and stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import websockets.sync.client
from websockets import Subprotocol

from cutegen_core.trajectory.store import Store
from tests.later import Later
from tests.pages.stories import softmax_story
from tests.patience import PATIENCE_S, wait_until
from tests.serving import Server

if TYPE_CHECKING:
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

back, forward = (Later(f"streamlit.proto.{name}Msg_pb2") for name in ("Back", "Forward"))


class Tab:
    """A tab without a browser, which says what it is told to say and hears everything."""

    def __init__(self, url: str, query: str) -> None:
        address = f"{url.replace('http', 'ws', 1)}/_stcore/stream"
        self.socket = websockets.sync.client.connect(address, subprotocols=[Subprotocol("streamlit")], max_size=None)
        self.query = query

    def ask(self, page: str = "", name: str = "", fragment: str = "") -> None:
        asked = back.BackMsg()
        asked.rerun_script.query_string, asked.rerun_script.page_script_hash = self.query, page
        asked.rerun_script.page_name = name
        if fragment:
            asked.rerun_script.fragment_id, asked.rerun_script.is_auto_rerun = fragment, True
        self.socket.send(asked.SerializeToString())

    def heard(self) -> list[ForwardMsg]:
        """Return everything until a run of a whole page has ended."""
        found: list[ForwardMsg] = []
        while not found or found[-1].WhichOneof("type") != "script_finished":
            found.append(forward.ForwardMsg.FromString(self.socket.recv(PATIENCE_S)))
        return found

    def heard_soon(self, seconds: float) -> list[ForwardMsg]:
        found = []
        try:
            while True:
                found.append(forward.ForwardMsg.FromString(self.socket.recv(seconds)))
        except TimeoutError:
            return found


def test_a_late_poll_of_a_page_that_was_left_clears_no_other(server: Server, store: Store) -> None:
    story = softmax_story(store)
    tab = Tab(server.url, f"id={story.session}")
    with tab.socket:
        tab.ask(name="session")
        session = tab.heard()
        polls = [m.auto_rerun.fragment_id for m in session if m.WhichOneof("type") == "auto_rerun"]
        assert polls, "the session page looks for news by itself"
        shown = next(m.navigation for m in session if m.HasField("navigation"))
        compare = next(page.page_script_hash for page in shown.app_pages if page.url_pathname == "compare")
        tab.query = ""
        tab.ask(compare)
        tab.ask(shown.page_script_hash, fragment=polls[0])  # before its browser knows that the page has changed
        runs = [m.new_session for m in (*tab.heard(), *tab.heard_soon(1.5)) if m.HasField("new_session")]
    assert {run.page_script_hash for run in runs} == {compare}


def test_a_poll_is_drawn_only_if_something_was_written_or_the_address_is_another(server: Server, store: Store) -> None:
    story = softmax_story(store)
    tab = Tab(server.url, f"id={story.session}")
    with tab.socket:
        tab.ask(name="session")
        page = tab.heard()
        shown = next(m.navigation for m in page if m.HasField("navigation"))
        (poll,) = (m.auto_rerun.fragment_id for m in page if m.WhichOneof("type") == "auto_rerun")

        def drawn() -> bool:
            """Tell whether the next poll is drawn."""
            tab.ask(shown.page_script_hash, fragment=poll)
            return any(m.HasField("new_session") for m in tab.heard_soon(0.5))

        wait_until(drawn, "the first poll, which tells what address the browser has, is not drawn")
        wait_until(lambda: not drawn(), "what waits is drawn again and again")  # the engine may have written
        store.set_live("elsewhere", "somebody has written")
        wait_until(drawn, "what was written is not shown")
        wait_until(lambda: not drawn(), "what waits is drawn again and again")
        tab.query += "&step=1"
        wait_until(drawn, "another address is not heard")

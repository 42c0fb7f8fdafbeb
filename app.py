"""Serve the application: `streamlit run app.py`, or `cutegen app`.

It checks access before the websocket opens (`pages/components/access/access.py`), keeps the engine running, and leaves
drawing to `pages/components/shared/frame.py`, so that a deep link on a cold server runs inside the frame.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from cutegen_core.machine import garbage, workspace
from cutegen_core.records.errors import CutegenError
from pages.components.access import access
from pages.components.access.access_middleware import OriginMiddleware
from pages.components.shared import field_values, late_polls, quick_clicks, quiet_polls, whole_runs

LOCAL_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
NEEDED_SOON = ("pandas", "pages.components.shared.charts", "cutegen_core.share.exports")
"""Imported before the first page is served, by one thread: modules of pandas and Plotly import one another in circles,
and two pages that import them at once can find half a module. (Streamlit imports pandas in a component.)"""


@asynccontextmanager
async def _with_engine(_app: Any) -> AsyncIterator[None]:  # noqa: ANN401 - Streamlit's application object
    for module in NEEDED_SOON:
        importlib.import_module(module)
    stop = threading.Event()
    keeper = threading.Thread(target=_keep_engine, args=(stop,), name="engine keeper", daemon=True)
    keeper.start()
    yield
    stop.set()
    await asyncio.to_thread(keeper.join, 5)


def _keep_engine(stop: threading.Event) -> None:
    # Imported here: the page is served while the engine's modules load.
    from cutegen_core import engine

    with contextlib.suppress(OSError, CutegenError):  # the keeper tries again, and logs it
        engine.ensure_running()
    engine.keep_running(stop)


def _middleware() -> list[Middleware]:
    """Check the Host on a loopback address; on any other, let in only who has a token or a login; the origin always."""
    address = st.get_option("server.address")
    if not access.is_wanted(address):
        hosts = Middleware(TrustedHostMiddleware, allowed_hosts=LOCAL_HOSTS, www_redirect=False)
        return [hosts, Middleware(OriginMiddleware)]
    made = access.Access.fresh(workspace.home())
    host = address if address and address != "0.0.0.0" else socket.gethostname()
    for role, link in made.links(f"http://{host}:{st.get_option('server.port')}").items():
        print(f"  {role}: {link}", flush=True)
    return [Middleware(OriginMiddleware), access.middleware(made)]


garbage.collect_seldom()
quick_clicks.keep()
late_polls.keep_out()
quiet_polls.drop()
whole_runs.keep()
field_values.keep()
app = st.App(
    "pages/components/shared/frame.py",
    lifespan=_with_engine,
    middleware=_middleware(),
)

"""The served application: `streamlit run app.py`, or `cutegen app`.

It checks the Host of every request before the websocket opens, keeps the engine running, and leaves the drawing to
`pages/components/frame.py` (the frame lies there so that a deep link on a cold server runs inside it).
"""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

LOCAL_HOSTS = ["localhost", "127.0.0.1", "[::1]"]


@asynccontextmanager
async def _with_engine(_app: Any) -> AsyncIterator[None]:  # noqa: ANN401 - Streamlit's application object
    stop = threading.Event()
    keeper = threading.Thread(target=_keep_engine, args=(stop,), name="engine keeper", daemon=True)
    keeper.start()
    yield
    stop.set()
    await asyncio.to_thread(keeper.join, 5)


def _keep_engine(stop: threading.Event) -> None:
    # Imported here: the page is served while the engine's modules load.
    from cutegen_core import engine

    engine.ensure_running()
    importlib.import_module("plotly.graph_objects")  # seconds on a cold disk; the first session page would wait for it
    engine.keep_running(stop)


app = st.App(
    "pages/components/frame.py",
    lifespan=_with_engine,
    middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=LOCAL_HOSTS, www_redirect=False)],
)

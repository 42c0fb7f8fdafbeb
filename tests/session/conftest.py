from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from tests.model_server import Answer, ModelServer, reply
from tests.session.asking import MODELS, Sessions


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ModelServer]]:
    """Plays a script of texts or answers as every model that there is; `fields` are of the models' settings."""
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    servers = []

    def start(*script: str | Answer, **fields: object) -> ModelServer:
        server = ModelServer(*(reply(each, size=500) if isinstance(each, str) else each for each in script))
        server.__enter__()
        servers.append(server)
        made = (ModelSettings(name, server.base_url, name, **fields) for name in MODELS)  # type: ignore[arg-type]
        model_settings.write(Models(tuple(made)))
        return server

    yield start
    for server in servers:
        server.__exit__(None, None, None)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Sessions]:
    made = Sessions(tmp_path, ())
    yield made
    made.store.close()

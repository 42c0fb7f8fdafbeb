"""Draw the picture of each shipped recording from its own data: `python -m docs.recording_pictures`.

The start page shows them. They are files, since reading a recording takes longer than the page.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from cutegen_core import views
from cutegen_core.share.imports import import_path
from cutegen_core.share.slides import charts
from cutegen_core.trajectory.store import Store
from pages.components.compare_present.imported import PICTURES, RECORDINGS, picture_of

LARGER = ".pr-picture text { font-size: 15px; } .pr-picture .ch-title, .pr-picture .ch-best { font-size: 14px; }"
"""The cards are narrower than a slide."""


def drawn(recording: Path) -> str:
    """Draw the best kernel over the steps: times on a GPU, registers where nothing was timed."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "store.db")
        view = views.session_view(store, import_path(store, recording).session)
        picture = charts.progress(view.steps, views.speed_rows(store, view.state), len(view.steps))
        store.close()
    assert picture is not None
    return picture.standalone(LARGER)


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    for recording in sorted(RECORDINGS.glob("*.jsonl*")):
        picture_of(recording).write_text(drawn(recording), encoding="utf-8")


if __name__ == "__main__":
    main()

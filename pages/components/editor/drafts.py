"""Tell which draft belongs to the shown step; open, discard and restore drafts.

Every kernel has a draft of its own, shown at the step of that kernel and nowhere else. A step without a kernel is
edited at the step it continues from.
"""

from __future__ import annotations

from typing import NamedTuple

from cutegen_core.propose.prompting.rendering import EXAMPLE
from cutegen_core.records.candidate import content_key
from cutegen_core.records.event import SessionState
from cutegen_core.trajectory.store import Draft, Store, edit_name
from cutegen_core.views import SessionView, StepView
from pages.components.access import access
from pages.components.editor import text_field
from pages.components.editor.first_text import first_text
from pages.components.shared import address, ui_state


class DraftOf(NamedTuple):
    """A draft of the step with this number; None where no step has the kernel."""

    step: int | None
    draft: Draft


def base_of(shown: StepView | None) -> str:
    """Return the kernel that is edited here: the shown one, else the one that the step continues from; "" for none."""
    return (shown.step.candidate or shown.step.base or "") if shown else ""


def shown_draft(store: Store, view: SessionView, shown: StepView | None) -> Draft | None:
    """Return the draft of the shown step, unless this tab has closed it or may not edit."""
    base = base_of(shown)
    draft = store.draft(edit_name(view.id, base))
    if draft is None or view.state.settings.imported or access.role() is not access.AccessRole.OWNER:
        return None
    at_home = _home(view, base) in (None, shown.step.number if shown else None)
    if not at_home and shown is not None and shown.step.candidate != base:
        return None
    return None if ui_state.editing(edit_name(view.id, base)) is False else draft


def _home(view: SessionView, base: str) -> int | None:
    step = view.state.step_of(base) if base else None
    return step.number if step else None


def start(store: Store, view: SessionView, shown: StepView | None) -> None:
    """Open the editor on the kernel's draft, or on a new one, at the kernel's step; a click."""
    base = base_of(shown)
    if store.draft(edit_name(view.id, base)) is None:
        if not base:
            store.save_draft(_begun(view.id), Draft(base, first_text(view.problem)))
        text = source(store, view.id, base)
        store.save_draft(edit_name(view.id, base), Draft(base, text))
    own = shown is not None and shown.step.candidate == base
    step = _home(view, base)
    show(view, DraftOf(shown.step.number if shown and (own or step is None) else step, Draft(base, "")))


def show(view: SessionView, found: DraftOf) -> None:
    """Open the editor of a draft at its step; a click."""
    ui_state.set_editing(edit_name(view.id, found.draft.base), True)
    if found.step is not None:
        address.go(step=str(found.step))


def elsewhere(store: Store, view: SessionView, shown: StepView | None) -> tuple[DraftOf, ...]:
    """List the changed drafts of this session that are not on the screen, those of the newest steps first."""
    on_screen = shown_draft(store, view, shown)
    found = [
        DraftOf(_home(view, draft.base), draft)
        for draft in store.edits(view.id)
        if (on_screen is None or draft.base != on_screen.base) and is_changed(store, view.id, draft)
    ]
    return tuple(sorted(found, key=lambda one: -(one.step or 0)))


def source(store: Store, session: str, base: str) -> str:
    """Return the text that a draft starts from: its kernel, or what a first kernel was begun from."""
    if base:
        return store.text(base)
    begun = store.draft(_begun(session))
    return begun.text if begun else EXAMPLE.read_text()


def _begun(session: str) -> str:
    """Name the text that the first kernel of a session was begun from: the skeleton, which may come later."""
    return f"begun {edit_name(session, '')}"


def is_changed(store: Store, session: str, draft: Draft) -> bool:
    return draft.text != source(store, session, draft.base)


def blocked(view: SessionView) -> str:
    """Say why no edit can be run now, or ""."""
    if view.state.status is SessionState.ACCEPTED:
        return "the session is accepted: rewind or branch to run an edit"
    if view.working:
        step = view.state.step
        return f"step {step.number} is running: it can be run when that ends" if step else "the session is starting"
    return ""


def close(view: SessionView, base: str) -> None:
    """Close the editor and keep the draft; the last step need not be named by the address any more."""
    ui_state.set_editing(edit_name(view.id, base), False)
    if view.state.step is not None and address.get("step") == str(view.state.step.number):
        address.drop("step")


def forget(store: Store, session: str, base: str) -> None:
    """Forget a draft, close its editor, and ignore what its tab still sends."""
    name = edit_name(session, base)
    store.save_draft(name, None)
    ui_state.set_editing(name, False)
    ui_state.forget(visit_key(name))
    text_field.forget(f"editor-{name}")


def visit_key(name: str) -> str:
    return f"visit-{name}"


def taken(store: Store, session: str, base: str, text: str) -> None:
    """Forget the draft when the engine has made a candidate of its text; what was typed on is a draft of that."""
    draft, made = store.draft(edit_name(session, base)), content_key(text)
    if draft is None:
        return
    new = edit_name(session, made)
    if draft.text != text and store.draft(new) is None:
        store.save_draft(new, Draft(made, draft.text))
        ui_state.set_editing(new, False)
    forget(store, session, base)


# -- discarding, and its undo ------------------------------------------------------------------------------------------


def discard(store: Store, view: SessionView, base: str) -> None:
    """Discard a draft; a changed one can be restored. A callback or a click."""
    name = edit_name(view.id, base)
    draft = store.draft(name)
    if draft is not None and is_changed(store, view.id, draft):
        set_aside(store, name)
    forget(store, view.id, base)
    close(view, base)


def can_restore(store: Store, view: SessionView, shown: StepView | None) -> bool:
    """Tell whether a draft of the shown kernel was discarded and none was begun since."""
    return is_aside(store, edit_name(view.id, base_of(shown)))


def restore(store: Store, view: SessionView, shown: StepView | None) -> None:
    """Bring the discarded draft back and open it; a click."""
    bring_back(store, edit_name(view.id, base_of(shown)))
    start(store, view, shown)


def _aside(name: str) -> str:
    return f"discarded {name}"


def set_aside(store: Store, name: str) -> None:
    """Take a draft away so that it can be brought back, in place of the one discarded before."""
    store.save_draft(_aside(name), store.draft(name))
    store.save_draft(name, None)


def is_aside(store: Store, name: str) -> bool:
    return store.draft(name) is None and store.draft(_aside(name)) is not None


def bring_back(store: Store, name: str) -> None:
    """Bring back what was set aside, unless a new draft was begun."""
    if is_aside(store, name):
        store.save_draft(name, store.draft(_aside(name)))
        store.save_draft(_aside(name), None)


def forget_all(store: Store, name: str) -> None:
    """Forget a draft and what was set aside of it."""
    store.save_draft(name, None)
    store.save_draft(_aside(name), None)

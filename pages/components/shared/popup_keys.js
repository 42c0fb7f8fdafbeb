// While a menu, a list of choices, a popover or a dialog is open, its keys are its own: Streamlit would also press the
// buttons of the page behind it, such as Stop.

const POPUPS = '[role="dialog"], [role="menu"], [role="listbox"], [data-testid="stPopoverBody"]';
const OF_THE_PAGE = '[data-testid="stMain"], [data-testid="stBottom"], .cg-tour';
const THEIRS = new Set(["Tab", "Escape"]);

function popupIsOpen() {
  return Array.from(document.querySelectorAll(POPUPS)).some((popup) => !popup.closest(OF_THE_PAGE) && popup.checkVisibility());
}

function keepKeysToPopups() {
  if (globalThis.cutegenPopupKeys) return;
  globalThis.cutegenPopupKeys = true;
  // The popup has seen the key by then; the listeners for the page's keys are at the document.
  document.documentElement.addEventListener("keydown", (event) => {
    if (!THEIRS.has(event.key) && popupIsOpen()) event.stopPropagation();
  });
  document.addEventListener("pointerup", (event) => event.target.closest?.('[role="option"]') && release(), { capture: true });
}

/** After a choice by mouse the list's field would hold the keyboard, and the page's keys would be letters in it. */
function release(frames = 60) {
  requestAnimationFrame(() => {
    if (popupIsOpen() && frames) release(frames - 1);
    else setTimeout(() => document.activeElement?.matches('input[role="combobox"]') && document.activeElement.blur());
  });
}

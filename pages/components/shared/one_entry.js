// A switch of pages with an address of its own is one entry in the browser's history. Streamlit makes two: the new
// address on the old page, which leads nowhere, then the new page.

function keepOneEntry() {
  if (globalThis.cutegenOneEntry) return;
  globalThis.cutegenOneEntry = true;
  const push = history.pushState.bind(history);
  let latest = ""; // where the last entry led that changed the address of its page only
  history.pushState = (state, title, url) => {
    const to = new URL(url ?? location.href, location.href);
    const samePage = to.pathname === location.pathname;
    if (!samePage && to.search && to.search === location.search && latest === location.href) {
      history.replaceState(state, title, url);
    } else {
      push(state, title, url);
    }
    latest = samePage ? to.href : "";
  };
  document.addEventListener("click", () => { latest = ""; }, { capture: true }); // a link to another page is an entry
}

// The pages work without this script. It adds live figures, local times, copying and shortcuts.
"use strict";

// Times are in UTC, and local in the tooltip, or the other way round.
const localTime = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "2-digit", day: "2-digit",
  hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });

function addLocalTimes(root) {
  const local = document.documentElement.dataset.times === "local";
  for (const e of root.querySelectorAll("time[datetime]")) {
    const at = new Date(e.dateTime);
    if (isNaN(at)) continue;
    e.title = local ? e.textContent : localTime.format(at);
    if (local) e.textContent = localTime.format(at);
  }
}

// shownTime is a moment as the page shows times.
function shownTime(at) {
  if (document.documentElement.dataset.times === "local") return localTime.format(at);
  return at.toISOString().slice(0, 19).replace("T", " ") + " UTC";
}

function addTimesSwitch() {
  const form = document.getElementById("times");
  if (form) form.hidden = false;
}

function addCopying() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    });
  }
}

// follow updates the figures of the page. Texts are set as text, never as markup.
function follow() {
  let live = document.getElementById("live");
  if (!live || !window.EventSource) return;
  const state = (text) => { const e = document.getElementById("live-state"); if (e) e.textContent = text; };
  // replace keeps the focus, and reports a state that is another one to screen readers.
  const replace = (next) => {
    const at = live.contains(document.activeElement) && document.activeElement, before = document.getElementById("state");
    const like = (e) => e.tagName === at.tagName && e.value === at.value && ["href", "aria-label"].every((name) => e.getAttribute(name) === at.getAttribute(name));
    live.replaceWith(document.adoptNode(next));
    live = next;
    addLocalTimes(live);
    const same = at && [...live.querySelectorAll("a, button, [tabindex]")].find(like);
    if (same) same.focus();
    const after = document.getElementById("state"), announced = document.getElementById("announced");
    if (announced && before && after && before.textContent !== after.textContent) announced.textContent = "State: " + after.textContent;
  };
  let events, loading = false;
  const show = async (event) => {
    const now = JSON.parse(event.data);
    if (now.error) return state(now.error);
    const current = "Live, as of " + shownTime(new Date(now.at));
    if (now.shape !== live.dataset.shape) {
      if (loading) return;
      loading = true;
      try {
        const answer = await fetch(location.href);
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const next = page.getElementById("live");
        if (next) { replace(next); state(current); }
      } finally { loading = false; }
      return;
    }
    for (const [id, text] of Object.entries(now.figures)) {
      const e = document.getElementById(id);
      if (e && e.textContent !== text) e.textContent = text;
    }
    state(current);
  };
  const listen = () => {
    events = new EventSource(live.dataset.events);
    events.addEventListener("figures", show);
    events.addEventListener("error", () => state("The figures are not updated: no connection to the console."));
  };
  listen();
  // A page that was left may be kept, and shown again by the back button.
  addEventListener("pagehide", () => events.close());
  addEventListener("pageshow", (event) => { if (event.persisted) listen(); });
}

// Shortcuts of one key. The shortcuts page turns them off.
function addShortcuts() {
  if (document.documentElement.dataset.keys !== "on") return;
  let afterG = false;
  document.addEventListener("keydown", (event) => {
    const at = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) && at.type !== "checkbox") return;
    const go = (link) => { if (link) { event.preventDefault(); link.click(); } };
    if (afterG) {
      afterG = false;
      return go([...document.querySelectorAll("nav a[data-key]")].find((a) => a.dataset.key === event.key));
    }
    const rows = [...document.querySelectorAll("table.list tbody tr")];
    const row = rows.findIndex((r) => r.contains(document.activeElement));
    const to = (i) => { const a = rows[i] && rows[i].querySelector("a"); if (a) { event.preventDefault(); a.focus(); } };
    switch (event.key) {
      case "?": return go(document.querySelector("footer a"));
      case "g": afterG = true; return;
      case "/": { const f = document.getElementById("search"); if (f) { event.preventDefault(); f.focus(); } return; }
      case "j": return to(row + 1);
      case "k": return to(Math.max(row - 1, 0));
      case "x": { const box = row >= 0 && rows[row].querySelector("input[type=checkbox]"); if (box) box.checked = !box.checked; }
    }
  });
}

addLocalTimes(document);
addTimesSwitch();
addCopying();
follow();
addShortcuts();

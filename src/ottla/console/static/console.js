// The only script of the console: live fragments, actions, the palette, keys, the theme. No inline code anywhere.

import { morph, html } from "./morph.js";

const token = document.querySelector("meta[name=ottla-token]").content;
const byId = (id) => document.getElementById(id);

// --- the event stream: one per page, closed while the page is hidden

let stream = null;
let ended = false;
let position = "";
const live = byId("live");

function showState(state, text) {
  live.dataset.state = state;
  live.lastElementChild.textContent = text;
}

function open() {
  if (stream || ended || document.hidden || !document.querySelector("[data-live]")) return;
  const at = encodeURIComponent(location.pathname + location.search);
  stream = new EventSource(`/-/stream?at=${at}&resume=${encodeURIComponent(position)}`);
  stream.onopen = () => showState("on", "live");
  stream.onerror = () => showState("lost", "connection lost");
  stream.addEventListener("replace", (event) => update(event, (target, made) => morph(target, made)));
  stream.addEventListener("append", (event) => update(event, (target, made) => target.append(...made.childNodes)));
  stream.addEventListener("prepend", (event) => update(event, prepend));
  stream.addEventListener("end", () => { ended = true; close(); showState("off", "complete"); });
}

function close() {
  if (!stream) return;
  stream.close();
  stream = null;
  showState("off", "paused");
}

function update(event, apply) {
  const { target, html: text } = JSON.parse(event.data);
  position = event.lastEventId || position;
  const element = byId(target);
  if (element) apply(element, html(text));
}

function prepend(target, made) {
  target.prepend(...made.childNodes);
  const limit = Number(target.dataset.limit || 500);
  while (target.children.length > limit) target.lastElementChild.remove();
}

document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
addEventListener("pagehide", close);
addEventListener("pageshow", open);

// --- actions

function toast(text, command, bad) {
  const made = document.createElement("div");
  made.className = bad ? "toast is-bad" : "toast";
  made.textContent = text;
  if (command) made.append(Object.assign(document.createElement("code"), { textContent: command }));
  byId("toasts").append(made);
  setTimeout(() => made.remove(), bad ? 9000 : 5000);
}

function confirmed(form) {
  if (!form.dataset.confirm) return Promise.resolve(true);
  const dialog = byId("confirm");
  byId("confirm-text").textContent = form.dataset.confirm;
  byId("confirm-command").textContent = form.dataset.command || "";
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) =>
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-action]");
  if (!form) return;
  event.preventDefault();
  const body = new URLSearchParams(new FormData(form, event.submitter));
  if (!(await confirmed(form))) return;
  const buttons = form.querySelectorAll("button:not(:disabled)");
  buttons.forEach((each) => (each.disabled = true));
  try {
    const response = await fetch(form.action, { method: "POST", headers: { "x-ottla-token": token }, body });
    const isJson = (response.headers.get("content-type") || "").includes("json");
    const result = isJson ? await response.json() : { error: await response.text() };
    if (!response.ok) toast(result.error, "", true);
    else if (result.go) location.assign(result.go);
    else toast(result.message, form.dataset.command);
  } catch {
    toast("The console does not respond.", "", true);
  } finally {
    buttons.forEach((each) => (each.disabled = false));
  }
});

document.addEventListener("click", async (event) => {
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    try {
      await navigator.clipboard.writeText(copy.dataset.copy);
      toast("Copied");
    } catch {
      toast("The browser does not allow copying here.", "", true);
    }
  }
  if (event.target.closest("[data-palette]")) openPalette();
  if (event.target.closest("[data-theme-toggle]")) nextTheme();
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
});

// --- the theme: as the system, light, dark; the server reads the cookie, so that no page flashes

function nextTheme() {
  const root = document.documentElement;
  const order = ["auto", "light", "dark"];
  const next = order[(order.indexOf(root.dataset.theme) + 1) % order.length];
  root.dataset.theme = next;
  document.cookie = `ottla_theme=${next};path=/;max-age=31536000;samesite=strict`;
  toast(`Theme: ${next === "auto" ? "as the system" : next}`);
}

// --- the palette

const palette = byId("palette");
const input = byId("palette-input");
const results = byId("palette-results");
let asked = 0;

function openPalette() {
  if (palette.open) return;
  input.value = "";
  palette.showModal();
  search();
}

async function search() {
  const number = ++asked;
  const response = await fetch("/-/search?q=" + encodeURIComponent(input.value));
  const text = await response.text();
  if (number !== asked || !response.ok) return;
  results.replaceChildren(...html(text).childNodes);
  choose(0);
}

function choose(index) {
  const links = [...results.querySelectorAll("a")];
  const bounded = Math.max(0, Math.min(links.length - 1, index));
  links.forEach((each, at) => each.setAttribute("aria-selected", at === bounded));
  links[bounded]?.scrollIntoView({ block: "nearest" });
}

function chosen() {
  return [...results.querySelectorAll("a")].findIndex((each) => each.getAttribute("aria-selected") === "true");
}

input.addEventListener("input", search);
input.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") choose(chosen() + 1);
  else if (event.key === "ArrowUp") choose(chosen() - 1);
  else if (event.key === "Escape") { input.blur(); palette.close(); }
  else if (event.key === "Enter") results.querySelectorAll("a")[chosen()]?.click();
  else return;
  event.preventDefault();
});
palette.addEventListener("click", (event) => { if (event.target === palette) palette.close(); });

// --- keys

let going = false;

function move(step) {
  const rows = [...document.querySelectorAll("tr[data-row]")];
  if (!rows.length) return;
  const at = rows.findIndex((each) => each.classList.contains("is-selected"));
  const next = Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + step));
  rows.forEach((each, index) => each.classList.toggle("is-selected", index === next));
  rows[next].querySelector("a")?.focus();
  rows[next].scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input, select, textarea")) return;
  if (going) {
    going = false;
    const link = document.querySelector(`.nav[data-shortcut="${CSS.escape(event.key)}"]`);
    if (link) { event.preventDefault(); link.click(); }
    return;
  }
  const actions = {
    "/": openPalette, "?": () => byId("help").showModal(), g: () => { going = true; }, t: nextTheme,
    j: () => move(1), k: () => move(-1),
  };
  if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
});

// --- parts of a page that are loaded after it

for (const element of document.querySelectorAll("[data-load]")) {
  fetch(element.dataset.load).then(async (response) => {
    if (response.ok) element.replaceChildren(...html(await response.text()).childNodes);
  }).catch(() => {});
}

document.querySelector(".nav.is-current")?.scrollIntoView({ block: "nearest", inline: "center" });
open();

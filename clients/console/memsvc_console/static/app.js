// Spares the reader a reload and the mouse. Everything that can be read or decided here works without it.
"use strict";

(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  document.documentElement.classList.add("scripted");

  // Toasts: a clock on those that can be taken back; the others go by themselves, unless they say what went wrong. The
  // same thing going wrong again is said once.
  const DONE_MS = 6000;

  function mind(toast) {
    if (toast.dataset.minded) return;
    toast.dataset.minded = "yes";
    if (toast.dataset.kind === "problem") {
      const same = all("#toasts .toast-problem").filter((other) => other.textContent === toast.textContent);
      same.filter((other) => other !== toast).forEach((other) => other.remove());
    }
    const close = $("[data-close]", toast);
    if (close) close.addEventListener("click", () => toast.remove());
    const left = toast.dataset.left;
    if (left !== undefined) {
      const clock = $(".toast-clock", toast);
      clock.style.animationDelay = `-${10 - Number(left)}s`;
      clock.hidden = false;
      setTimeout(() => {
        toast.remove();
        setTimeout(askWhatFailed, 2500);
      }, Number(left) * 1000);
    } else if (toast.dataset.kind === "done") {
      setTimeout(() => {
        if (toast.contains(document.activeElement) || toast.matches(":hover")) return;
        toast.remove();
      }, DONE_MS);
    }
  }

  function askWhatFailed() {
    const base = document.body.dataset.base;
    if (base) htmx.ajax("GET", `${base}/takebacks`, { target: "#toasts", swap: "beforeend" });
  }

  function mindToasts() {
    all("#toasts .toast").forEach(mind);
  }

  // Keys: j and k walk the items, a letter presses what is marked with it in the item that has the focus.
  let last = null;

  const items = () => all("[data-item]");

  function walk(step) {
    const list = items();
    if (!list.length) return;
    const at = list.findIndex((item) => item.contains(document.activeElement));
    const next = at < 0 ? (step > 0 ? 0 : list.length - 1) : Math.min(list.length - 1, Math.max(0, at + step));
    list[next].focus();
    list[next].scrollIntoView({ block: "nearest" });
  }

  function press(key) {
    const item = items().find((each) => each.contains(document.activeElement));
    const target = item && $(`[data-key="${key}"]`, item);
    if (!target) return false;
    target.click();
    const details = target.closest("details");
    if (details && target.tagName === "SUMMARY") {
      const field = $("textarea, input:not([type=hidden])", details);
      if (field && details.open) {
        field.focus();
        field.setSelectionRange(field.value.length, field.value.length);
      }
    }
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "Escape" && typing) {
      const details = typing.closest("details");
      if (details) {
        details.open = false;
        (typing.closest("[data-item]") || $("summary", details)).focus();
      }
      return;
    }
    if (typing || $("dialog[open]")) return;
    const help = $("#keys");
    if (event.key === "?" && help) {
      help.showModal();
    } else if (event.key === "j" || event.key === "k") {
      walk(event.key === "j" ? 1 : -1);
    } else if (event.key === "u" && $(".toast[data-left] button")) {
      all(".toast[data-left] button").at(-1).click();
    } else if (event.key === "/" && $("[data-search]")) {
      $("[data-search]").focus();
    } else if (!/^[a-z]$/.test(event.key) || !press(event.key)) {
      return;
    }
    event.preventDefault();
  });

  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-opens]");
    if (opener) $(`#${opener.dataset.opens}`).showModal();
    const closer = event.target.closest("[data-closes]");
    if (closer) closer.closest("dialog").close();
    all("details[data-menu][open]").forEach((menu) => {
      if (!menu.contains(event.target)) menu.open = false;
    });
  });

  // What a link has shown below itself, the same link hides again.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const { elt, target } = event.detail;
    if (elt.dataset.toggles === undefined || !target.hasChildNodes()) return;
    target.replaceChildren();
    event.preventDefault();
  });

  // A list that is read anew keeps what somebody is writing in it, and the place of the reader: the same item, or the
  // one that stands there now. What has been sent is written no more.
  let drafts = [];

  function keepDrafts(list) {
    const fields = all("details textarea", list);
    if (!fields.length) return;
    drafts = fields.map((field) => ({
      id: field.id,
      open: field.closest("details").open,
      written: field.value === field.defaultValue ? null : field.value,
      caret: field === document.activeElement ? [field.selectionStart, field.selectionEnd] : null,
    }));
  }

  function restoreDrafts() {
    for (const { id, open, written, caret } of drafts) {
      const field = document.getElementById(id);
      if (!field) continue;
      if (open) field.closest("details").open = true;
      if (written !== null) field.value = written;
      if (!caret) continue;
      field.focus({ preventScroll: true });
      field.setSelectionRange(...caret);
    }
    drafts = [];
  }

  // A form that waits for its answer must not go meanwhile: the answer would find no page to stand on.
  let postponed = false;

  function postpone(swap) {
    const waiting = all("form.htmx-request", swap.target).filter((form) => form !== swap.requestConfig.elt);
    if (!waiting.length) return false;
    swap.shouldSwap = false;
    postponed = true;
    return true;
  }

  document.addEventListener("htmx:afterRequest", (event) => {
    const { elt, successful } = event.detail;
    if (postponed && !$("main form.htmx-request")) {
      postponed = false;
      htmx.trigger(document.body, "changed");
    }
    const details = elt.closest("details");
    if (!successful || !details || !elt.matches("form") || !$("textarea", elt)) return;
    elt.reset();
    details.open = false;
  });

  document.addEventListener("htmx:beforeSwap", (event) => {
    if (postpone(event.detail)) return;
    keepDrafts(event.detail.target);
    const list = items();
    const at = list.findIndex((item) => item.contains(document.activeElement));
    last = at < 0 ? last : { id: list[at].id, at };
  });

  document.addEventListener("htmx:afterSwap", mindToasts);

  document.addEventListener("htmx:afterSettle", () => {
    restoreDrafts();
    if (!last || document.activeElement !== document.body) return;
    const list = items();
    const place = list.find((item) => item.id === last.id) || list[Math.min(last.at, list.length - 1)];
    last = null;
    if (place) place.focus({ preventScroll: true });
  });

  document.addEventListener("htmx:sendError", () => {
    const toast = $("#offline").content.firstElementChild.cloneNode(true);
    $("#toasts").append(toast);
    mind(toast);
  });

  // Where the navigation is wider than the window, the page that one is on is the entry that is seen.
  const nav = $(".nav");
  const current = $(".nav [aria-current]");
  if (nav && current) nav.scrollLeft += current.getBoundingClientRect().right - nav.getBoundingClientRect().right + 48;

  mindToasts();
})();

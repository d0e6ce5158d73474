// Sends a turn and shows its answer as it comes. Without this script the form is sent and the page comes back whole.
"use strict";

(() => {
  const form = document.querySelector("[data-chat]");
  if (!form) return;
  const turns = document.getElementById("turns");
  const field = form.elements.input;
  const send = form.querySelector("[data-send]");
  const stop = form.querySelector("[data-stops]");
  let talk = "";

  const make = (tag, className, text = "") => {
    const element = document.createElement(tag);
    element.className = className;
    element.textContent = text;
    return element;
  };

  const bubble = (kind, who, text) => {
    const element = make("div", `bubble bubble-${kind}`);
    element.dir = "auto";
    element.append(make("span", "visually-hidden", `${who}: `), text);
    return element;
  };

  const show = (element) => element.scrollIntoView({ block: "nearest" });

  const fromHtml = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.firstElementChild;
  };

  function problem(live, told) {
    const note = make("div", "note note-danger");
    note.role = "alert";
    note.append(make("strong", "", told.title), make("p", "", told.advice || ""));
    live.append(note);
    show(note);
  }

  function take(event, live, answer) {
    if (event.kind === "given") {
      talk = event.talk;
      stop.hidden = false;
      if (event.html) document.getElementById("given").replaceWith(fromHtml(event.html));
    } else if (event.kind === "piece") {
      answer.append(event.text);
      show(answer);
    } else {
      live.classList.remove("turn-live");
      if (event.thread) {
        form.elements.thread_id.value = event.thread;
        history.replaceState(null, "", `${form.dataset.page}?thread=${encodeURIComponent(event.thread)}`);
        htmx.ajax("GET", `${form.dataset.memory}?thread=${encodeURIComponent(event.thread)}`, {
          target: "#remembered",
          swap: "outerHTML",
        });
      }
      let place = live;
      if (event.html) {
        place = fromHtml(event.html);
        live.replaceWith(place);
      } else if (event.problem) {
        field.value = field.value || live.dataset.said;
      }
      if (event.problem) problem(place, event.problem);
      show(place);
    }
  }

  async function* lines(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let held = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (held + value).split("\n");
      held = parts.pop();
      for (const part of parts) yield JSON.parse(part);
    }
  }

  async function say() {
    const said = field.value.trim();
    if (!said || send.disabled) return;
    const body = new URLSearchParams(new FormData(form));
    const live = make("article", "turn turn-live");
    const answer = bubble("agent", form.dataset.agent, "");
    live.dataset.said = said;
    live.append(bubble("user", form.dataset.you, said), answer);
    turns.querySelector("[data-hint]")?.remove();
    turns.append(live);
    field.value = "";
    send.disabled = true;
    turns.setAttribute("aria-busy", "true");
    show(live);
    let ended = false;
    try {
      const reply = await fetch(form.action, {
        method: "POST",
        body,
        headers: { accept: "application/x-ndjson", "hx-request": "true" },
      });
      if (reply.headers.get("content-type")?.startsWith("application/x-ndjson")) {
        for await (const event of lines(reply.body)) {
          take(event, live, answer);
          ended = event.kind === "end";
        }
      } else if (reply.headers.has("hx-redirect")) {
        location.assign(reply.headers.get("hx-redirect"));
        return;
      } else {
        field.value = said;
        const toast = fromHtml(await reply.text());
        problem(live, { title: toast?.querySelector("strong")?.textContent, advice: toast?.querySelector("span")?.textContent });
        ended = true;
      }
    } catch {
      // The console went away in the middle. It records what there was.
    }
    if (!ended) {
      live.classList.remove("turn-live");
      problem(live, { title: form.dataset.lost });
    }
    talk = "";
    stop.hidden = true;
    send.disabled = false;
    turns.removeAttribute("aria-busy");
    field.focus();
  }

  // A conversation is gone on with where it ended.
  if (turns.querySelector(".turn")) scrollTo(0, document.body.scrollHeight);

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    say();
  });

  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    say();
  });

  stop.addEventListener("click", () => {
    const body = new URLSearchParams({ csrf: form.elements.csrf.value, talk });
    fetch(form.dataset.stop, { method: "POST", body });
  });
})();

// Copies a block as the daemon gave it: its lines, without what stands beside them.
"use strict";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copies]");
  if (!button) return;
  const lines = [...document.getElementById(button.dataset.copies).querySelectorAll("[data-line]")];
  const text = lines.map((line) => line.textContent).join("");
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Off loopback without TLS there is no clipboard; what is selected can still be copied by hand.
    getSelection().selectAllChildren(document.getElementById(button.dataset.copies));
    return;
  }
  const said = button.textContent;
  button.textContent = button.dataset.done;
  setTimeout(() => {
    button.textContent = said;
  }, 1500);
});

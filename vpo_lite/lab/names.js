// What ipywidgets does not tell a screen reader: names of sliders and players, values in words, which toggle is on.
// And what it takes from a keyboard: a button that is pressed, and then disabled, loses the focus to the page.
function assist(box) {
  const set = (e, name, value) => { if (e.getAttribute(name) !== value) e.setAttribute(name, value); };
  const improve = () => {
    for (const handle of box.querySelectorAll(".noUi-handle")) {
      const slider = handle.closest(".widget-inline-hbox");
      set(handle, "aria-label", slider.querySelector(".widget-label").textContent);
      set(handle, "aria-valuetext", slider.querySelector(".widget-readout").textContent);
    }
    for (const button of box.querySelectorAll(".widget-toggle-button")) set(button, "aria-pressed", String(button.classList.contains("mod-active")));
    const players = [...box.querySelectorAll(".widget-play button")];
    players.forEach((button, i) => set(button, "aria-label", ["play or pause", "back to the first step"][i] || "repeat"));
    for (const icon of box.querySelectorAll("button > i")) set(icon, "aria-hidden", "true"); // a letter of a font of pictures
  };
  let lost = null;
  const refocus = () => { // from Train to Pause, and back
    const now = document.activeElement;
    if (now.disabled && box.contains(now)) lost = now;
    else if (now !== document.body) lost = null; // somebody went elsewhere
    const next = lost && box.querySelector(".vpo-train:enabled, .vpo-pause:enabled");
    if (next) { lost = null; next.focus({ preventScroll: true }); }
  };
  const changes = new MutationObserver(() => { improve(); refocus(); });
  changes.observe(box, { subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: ["aria-valuetext", "class", "disabled"] });
  improve();
  return () => changes.disconnect();
}

function render({ el }) {
  let end = () => {}, tries = 600;
  const begin = () => { // the box may not be on the page yet
    const box = el.closest(".vpo-named");
    if (box) end = assist(box);
    else if (--tries > 0) waiting = setTimeout(begin, 100);
  };
  let waiting = setTimeout(begin, 0);
  return () => { clearTimeout(waiting); end(); };
}

export default { render };

// What ipywidgets does not tell a screen reader: names of sliders and players, values in words,
// which button is on, and what changed (marked data-said): it draws that anew, and a new element is not read out.
// And what it takes from a keyboard: a button that is pressed, and then disabled, loses the focus to the page;
// a click beside a slider's handle gives it to the notebook.
function assist(box) {
  const set = (e, name, value) => { if (e.getAttribute(name) !== value) e.setAttribute(name, value); };
  const improve = () => {
    for (const handle of box.querySelectorAll(".noUi-handle")) {
      const slider = handle.closest(".widget-inline-hbox"), name = slider.querySelector(".widget-label").textContent;
      const readout = slider.querySelector(".widget-readout");
      set(handle, "aria-label", name);
      set(handle, "aria-valuetext", readout.textContent);
      if (slider.classList.contains("named-choice")) set(readout, "contenteditable", "false");
      else {
        set(readout, "role", "textbox");
        set(readout, "aria-label", `${name}, typed`);
      }
    }
    for (const e of box.querySelectorAll("[title='null']")) e.removeAttribute("title"); // of a widget without a hint
    for (const button of box.querySelectorAll(".widget-toggle-button")) set(button, "aria-pressed", String(button.classList.contains("mod-active")));
    const players = [...box.querySelectorAll(".widget-play button")];
    players.forEach((button, i) => {
      for (const name of ["aria-label", "title"]) set(button, name, ["play or pause", "back to the first step"][i] || "repeat");
    });
    for (const icon of box.querySelectorAll("button > i")) set(icon, "aria-hidden", "true"); // a letter of a font of pictures
  };

  const whole = box.closest(".vpo-lab") ?? box;
  let voice = whole.querySelector(":scope > .vpo-said");
  if (!voice) {
    voice = whole.appendChild(document.createElement("div"));
    voice.className = "vpo-said";
    voice.setAttribute("role", "status");
  }
  const speak = () => {
    const seen = [...whole.querySelectorAll("[data-said]")].filter((e) => e.getClientRects().length);
    const words = seen.map((e) => e.innerText).join(" ");
    if (words && words !== voice.textContent) voice.textContent = words;
  };

  let lost = null;
  const refocus = () => { // from Train to Pause, and back
    const now = document.activeElement;
    if (now.disabled && box.contains(now)) lost = now;
    else if (now !== document.body) lost = null; // somebody went elsewhere
    const next = lost && box.querySelector(".vpo-train:enabled, .vpo-pause:enabled");
    if (next) { lost = null; next.focus({ preventScroll: true }); }
  };
  const leave = (event) => { if (event.target.disabled) lost = event.target; }; // where the browser is quicker than what follows
  box.addEventListener("focusout", leave);
  const changes = new MutationObserver(() => { improve(); refocus(); });
  changes.observe(box, { subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: ["aria-valuetext", "class", "disabled"] });
  const words = new MutationObserver((changed) => { // not for a board that walks: to ask what is visible lays out the page
    if (changed.some(({ target }) => target.closest("[data-said]") || target.querySelector("[data-said]"))) speak();
  });
  words.observe(whole, { subtree: true, childList: true });
  const keep = (event) => { // they are the notebook's commands: "m" on a list of methods made its cell a text, an arrow left it
    const key = event.key.length === 1 || event.key.startsWith("Arrow");
    if (key && !event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
  };
  const follow = (event) => {
    const slider = event.target.closest(".widget-hslider");
    if (slider && !slider.contains(document.activeElement)) slider.querySelector(".noUi-handle")?.focus({ preventScroll: true });
    if (event.target.closest(".vpo-train, .vpo-step")) { // the kernel enables them later: until then a press was lost
      for (const button of box.querySelectorAll(".vpo-pause, .vpo-stop")) button.disabled = false;
    }
  };
  whole.addEventListener("keydown", keep);
  whole.addEventListener("click", follow);
  improve();
  return () => { box.removeEventListener("focusout", leave); changes.disconnect(); words.disconnect(); whole.removeEventListener("keydown", keep); whole.removeEventListener("click", follow); };
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

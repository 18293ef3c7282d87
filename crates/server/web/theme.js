// Dark or light: as the system is, until the switch says otherwise.

const NAME = "tuff.theme";
const THEMES = ["system", "light", "dark"];

const button = document.getElementById("theme");

function current() {
  let kept = null;
  try {
    kept = localStorage.getItem(NAME);
  } catch {
    // A browser that keeps nothing follows the system.
  }
  return THEMES.includes(kept) ? kept : "system";
}

function show(theme) {
  document.documentElement.dataset.theme = theme;
  button.title = `Theme: ${theme}`;
  button.setAttribute("aria-label", `Theme: ${theme}`);
}

/** Makes the switch work. */
export function startTheme() {
  let theme = current();
  show(theme);
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    show(theme);
    try {
      localStorage.setItem(NAME, theme);
    } catch {
      // It holds until the page is left.
    }
  });
}

// Pointing at a layer: a cursor through all panels of a network, and what the layer's numbers are. Without this, nothing is lost
// but the convenience: the table of all layers has the same numbers.
for (const section of document.querySelectorAll("[data-network]")) {
  const data = JSON.parse(document.getElementById(section.dataset.network).textContent);
  const box = section.querySelector(".pointer");
  const slider = box.querySelector("input");
  const told = box.querySelector("output");
  const cursors = section.querySelectorAll(".cursor");
  const count = data.layers.length;

  const show = (index) => {
    slider.value = index;
    slider.setAttribute("aria-valuetext", data.layers[index]);
    for (const cursor of cursors) {
      cursor.hidden = false;
      cursor.style.left = `${(100 * (index + 0.5)) / count}%`;
    }
    const name = document.createElement("b");
    name.textContent = data.layers[index] + (data.kinds[index] ? ` (${data.kinds[index]})` : "");
    const values = data.rows.map((row) => {
      const value = document.createElement("span");
      value.textContent = `${row.name}: ${row.values[index]}`;
      return value;
    });
    told.replaceChildren(name, ...values);
  };

  for (const area of section.querySelectorAll(".area")) {
    area.addEventListener("pointermove", (event) => {
      const frame = area.getBoundingClientRect();
      const index = Math.floor(((event.clientX - frame.left) / frame.width) * count);
      show(Math.min(count - 1, Math.max(0, index)));
    });
  }
  slider.addEventListener("input", () => show(Number(slider.value)));
  box.hidden = false;
  show(count - 1);
}

// Paper shows what a click would open, but for tables that fill pages.
window.addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not(.long)")) part.open = true;
});

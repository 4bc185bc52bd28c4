// The grid: new figures of sites, and jobs under way.
import { announce } from "./live.js";
import { showPart } from "./refresh.js";

export function grid() {
  const rows = new Map([...document.querySelectorAll("#sites [data-site]")].map((row) => [row.dataset.site, row]));

  return {
    grid({ sites, total }) {
      for (const cells of sites) {
        const row = rows.get(cells.site);
        if (!row) {
          location.reload(); // a site has joined
          return;
        }
        showSite(row, cells);
      }
      for (const one of document.querySelectorAll("[data-total]")) one.textContent = total[one.dataset.total];
    },
    parts(parts) {
      for (const [id, text] of Object.entries(parts)) showPart(id, text);
    },
  };
}

function showSite(row, cells) {
  for (const one of row.querySelectorAll("[data-cell]")) {
    const text = cells[one.dataset.cell];
    if (one.textContent === text) continue;
    if (one.dataset.cell === "state") {
      one.className = `state ${cells.tone}`;
      announce(`${cells.site}: ${text}`);
    }
    one.textContent = text;
  }
  for (const one of row.querySelectorAll("[data-bar]")) {
    one.setAttribute("x", cells.widths[`${one.dataset.bar}_at`]);
    one.setAttribute("width", cells.widths[one.dataset.bar]);
  }
}

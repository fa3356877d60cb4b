// Draw each chart when it comes near the window, and the rest when nothing else is to be done. Until
// then, and without scripts, its picture stands.
(() => {
  // Tables come by column (reporting/picture.py); a null is a value that the row does not have.
  const columnOf = (column) => (Array.isArray(column) ? column : column.at.map((place) => column.of[place]));
  const unpack = (node) => {
    if (Array.isArray(node)) return node.map(unpack);
    if (node === null || typeof node !== "object") return node;
    if ("rows" in node && "columns" in node) {
      const columns = Object.entries(node.columns).map(([name, column]) => [name, columnOf(column)]);
      return Array.from({ length: node.rows }, (_, row) => Object.fromEntries(
        columns.map(([name, values]) => [name, values[row]]).filter(([, value]) => value !== null)));
    }
    return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, unpack(value)]));
  };
  const draw = async (plot) => {
    if (plot.dataset.drawn) return;
    plot.dataset.drawn = "begun";
    const place = document.createElement("div");
    place.className = "chart";
    try {
      const spec = document.getElementById(`spec-${plot.dataset.figure}`);
      await window.vegaEmbed(place, unpack(JSON.parse(spec.textContent)), { actions: false, renderer: "svg" });
      plot.replaceChildren(place);
      plot.dataset.drawn = "yes";
    } catch (error) {
      console.error(`figure ${plot.dataset.figure}:`, error);
    }
  };
  const plots = [...document.querySelectorAll(".plot")];
  const margin = 600;
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        observer.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, { rootMargin: `${margin}px` });
  // An observer speaks up with the next frame, which a window that shows nothing new may never have.
  plots.forEach((plot) => {
    const near = plot.getBoundingClientRect().top < window.innerHeight + margin;
    if (near) draw(plot);
    else observer.observe(plot);
  });
  // The others one by one: what is printed or searched is whole soon after the page was opened.
  const idle = window.requestIdleCallback || ((work) => setTimeout(work, 100));
  const next = () => {
    const plot = plots.find((one) => !one.dataset.drawn);
    if (plot) draw(plot).then(() => idle(next));
  };
  idle(next);

  // What is folded is printed, too.
  const closed = () => [...document.querySelectorAll("main details:not([open])")];
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = closed();
    opened.forEach((one) => { one.open = true; });
    plots.forEach(draw);
  });
  window.addEventListener("afterprint", () => opened.forEach((one) => { one.open = false; }));

  // A menu closes by Escape, by a click elsewhere and when the focus leaves it.
  const menus = [...document.querySelectorAll("details.menu")];
  menus.forEach((menu) => {
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      menu.open = false;
      menu.querySelector("summary").focus();
    });
    menu.addEventListener("focusout", (event) => {
      if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
    });
  });
  document.addEventListener("click", (event) => {
    menus.filter((menu) => !menu.contains(event.target)).forEach((menu) => { menu.open = false; });
  });

  // On a narrow window the list of contents is folded, so that the page begins with its text.
  if (window.innerWidth < 1100) {
    document.querySelectorAll(".contents details").forEach((one) => { one.open = false; });
  }
  // In Snakemake's report the pages lie without figures and tables, which it lists itself.
  if (/\/data\/raw\/[0-9a-f]+\//.test(window.location.pathname)) {
    document.documentElement.classList.add("embedded");
  }
})();

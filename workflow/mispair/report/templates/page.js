// Draw each chart when it comes near the window, and the others when the browser is idle. Until then,
// and without scripts, its picture is shown.
(() => {
  // Tables are stored by column (report/pages/picture.py); null is a missing value.
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
  // On a narrow window panels are below each other, no wider than letters can be read, and each has
  // the names of its rows.
  const widest = 300;
  const stacked = (spec) => {
    if (window.innerWidth >= 700) return spec;
    [spec, ...(spec.concat || [])].forEach((view) => { if (view.width > widest) view.width = widest; });
    if (!spec.concat) return spec;
    spec.columns = 1;
    spec.config.legend.columns = 2;
    spec.concat.flatMap((panel) => panel.layer || []).forEach(({ encoding }) => {
      if (encoding?.y?.axis?.labels === false) encoding.y.axis.labels = true;
    });
    return spec;
  };
  const draw = async (plot) => {
    if (plot.dataset.drawn) return;
    plot.dataset.drawn = "begun";
    const place = document.createElement("div");
    place.className = "chart";
    try {
      const spec = document.getElementById(`spec-${plot.dataset.figure}`);
      await window.vegaEmbed(place, stacked(unpack(JSON.parse(spec.textContent))), { actions: false, renderer: "svg" });
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
  // An observer reports with the next frame, which a window without changes may never have.
  plots.forEach((plot) => {
    const near = plot.getBoundingClientRect().top < window.innerHeight + margin;
    if (near) draw(plot);
    else observer.observe(plot);
  });
  // Draw the others one by one, so that the page can be printed and searched soon after it opens.
  const idle = window.requestIdleCallback || ((work) => setTimeout(work, 100));
  const next = () => {
    const plot = plots.find((one) => !one.dataset.drawn);
    if (plot) draw(plot).then(() => idle(next));
  };
  idle(next);

  window.addEventListener("beforeprint", () => plots.forEach(draw));

  // A link to a place inside closed parts opens them.
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(window.location.hash.slice(1)));
    if (!target) return;
    for (let one = target; one; one = one.parentElement) {
      if (one.tagName === "DETAILS") one.open = true;
    }
    target.querySelectorAll(":scope > details.part").forEach((one) => { one.open = true; });
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", reveal);
  if (window.location.hash) reveal();

  // The page of claims shows those of one study, or of one verdict; groups with a match open.
  const filter = document.querySelector(".filter");
  if (filter) {
    const [study, outcome] = filter.querySelectorAll("select");
    const shown = () => {
      const chosen = study.value || outcome.value;
      let matches = 0;
      document.querySelectorAll(".claims").forEach((section) => {
        const ofStudy = !study.value || section.dataset.study === study.value;
        section.querySelectorAll("details.fold").forEach((group) => {
          let own = 0;
          group.querySelectorAll("tbody").forEach((body) => {
            body.hidden = outcome.value !== "" && !body.dataset.outcomes.split("|").includes(outcome.value);
            own += ofStudy && !body.hidden ? 1 : 0;
          });
          group.hidden = own === 0;
          group.open = own > 0 && chosen !== "";
          matches += own;
        });
        section.hidden = !section.querySelector("details.fold:not([hidden])");
      });
      filter.querySelector("[role=status]").textContent = chosen ? `${matches} ${matches === 1 ? "claim" : "claims"}` : "";
    };
    filter.hidden = false;
    [study, outcome].forEach((one) => one.addEventListener("change", shown));
  }

  // The gallery of suspects: filters, and labels of pairs that are chosen here, which a button saves as CSV.
  const gallery = document.querySelector(".suspects");
  if (gallery) {
    const place = `mispair suspects ${gallery.dataset.digest}`;
    const labels = new Map();
    try {
      (JSON.parse(localStorage.getItem(place)) || []).forEach(([key, label]) => labels.set(key, label));
    } catch { /* the browser keeps nothing, or something else */ }
    const picker = gallery.querySelector(".picker");
    const [least, words] = picker.querySelectorAll("input");
    const status = picker.querySelector("[role=status]");
    const suspects = [...gallery.querySelectorAll("li")];
    const plain = (text) => text.toLowerCase().normalize("NFC");
    const pick = () => {
      const wanted = plain(words.value).split(/\s+/).filter(Boolean);
      suspects.forEach((one) => {
        const caption = plain(one.querySelector(".caption").textContent);
        const unlikely = Number(least.value) > 0 && !(parseFloat(one.dataset.probability) >= Number(least.value));
        one.hidden = unlikely || !wanted.every((word) => caption.includes(word));
      });
      gallery.querySelectorAll("section").forEach((section) => {
        section.querySelector(".none").hidden = Boolean(section.querySelector("li:not([hidden])"));
      });
      status.textContent = `${suspects.filter((one) => !one.hidden).length || "none"} shown, ${labels.size || "none"} labelled`;
    };
    const mark = () => gallery.querySelectorAll("li button").forEach((button) => {
      button.setAttribute("aria-pressed", String(labels.get(button.closest("li").dataset.key) === button.value));
    });
    suspects.forEach((one) => {
      const { key } = one.dataset;
      const group = document.createElement("div");
      group.setAttribute("role", "group");
      group.setAttribute("aria-label", `Label of pair ${key}`);
      group.append(...["wrong", "unsure", "right"].map((value) => {
        const button = Object.assign(document.createElement("button"), { type: "button", value, textContent: value });
        button.addEventListener("click", () => {
          if (labels.get(key) === value) labels.delete(key);
          else labels.set(key, value);
          try {
            localStorage.setItem(place, JSON.stringify([...labels]));
          } catch { /* the button saves them */ }
          mark();
          pick();
        });
        return button;
      }));
      one.append(group);
    });
    picker.querySelector("button").addEventListener("click", () => {
      const rows = [...labels].map(([key, label]) => `"${key.replaceAll('"', '""')}",${label},chosen\n`);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob(["key,label,how\n", ...rows], { type: "text/csv" }));
      link.download = "chosen.csv";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    });
    [least, words].forEach((one) => one.addEventListener("input", pick));
    picker.hidden = false;
    mark();
    pick();
  }

  // On a narrow window the list of contents is folded, so that the page begins with its text.
  if (window.innerWidth < 1100) {
    document.querySelectorAll(".contents details").forEach((one) => { one.open = false; });
  }
  // In Snakemake's report the pages have no figures and tables next to them.
  if (/\/data\/raw\/[0-9a-f]+\//.test(window.location.pathname)) {
    document.documentElement.classList.add("embedded");
  }
})();

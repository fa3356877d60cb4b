// Draw each chart when it comes near the window; until then, and without scripts, its picture stands.
(() => {
  const draw = async (plot) => {
    const spec = document.getElementById(`spec-${plot.dataset.figure}`);
    const place = document.createElement("div");
    place.className = "chart";
    try {
      await window.vegaEmbed(place, JSON.parse(spec.textContent), { actions: false, renderer: "svg" });
      plot.replaceChildren(place);
      plot.dataset.drawn = "yes";
    } catch (error) {
      console.error(`figure ${plot.dataset.figure}:`, error);
    }
  };
  const plots = [...document.querySelectorAll(".plot")];
  const drawAll = () => Promise.all(plots.filter((plot) => !plot.dataset.drawn).map(draw));
  if (!("IntersectionObserver" in window)) {
    drawAll();
    return;
  }
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        observer.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, { rootMargin: "600px" });
  plots.forEach((plot) => observer.observe(plot));
  window.addEventListener("beforeprint", drawAll);
})();

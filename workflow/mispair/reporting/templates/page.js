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
  window.addEventListener("beforeprint", drawAll);
})();

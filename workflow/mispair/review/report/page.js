// Show pairs one by one and keep the answers: in this browser, in a CSV, and on the server of `mispair review`.

// Return the share in a population and its limits, from strata of [pairs, labelled, hits]: the score interval of
// mispair.review.measure, which explains it. A test compares both.
const interval = (strata, z = 1.959963984540054) => {
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const sampled = strata.filter(([, labelled]) => labelled > 0);
  if (!sampled.length) return [NaN, 0, 1];
  const every = sum(sampled.map(([pairs]) => pairs));
  const part = every / sum(strata.map(([pairs]) => pairs));
  const sparse = sampled.filter(([pairs, labelled]) => labelled < pairs);
  const [free, number] = [sparse.length, sum(sparse.map(([, labelled]) => labelled))].map((one) => Math.max(one, 1));
  const fitted = (Math.min(1, (6 * free) / number) ** 2 * (free - 1 / free)) / number;
  const of = sampled.map(([pairs, n, hits]) => ({
    weight: pairs / every, y: hits / n, m: pairs > n ? (n * (1 - fitted) * (pairs - 1)) / (pairs - n) : 1e12,
  }));
  const estimate = sum(of.map(({ weight, y }) => weight * y));
  const most = (multiplier) => of.map(({ weight, y, m }) => {
    const a = multiplier * weight;
    const b = m + a;
    const root = Math.sqrt(Math.max(b * b - 4 * a * m * y, 0));
    return Math.min(Math.max(b > 0 ? (2 * m * y) / (b + root) : (b - root) / (2 * a), 0), 1);
  });
  const mean = (p) => sum(of.map(({ weight }, k) => weight * p[k]));
  const end = (sign) => {
    let [low, high] = [-14, 36];
    for (let halving = 0; halving < 60; halving += 1) {
      const middle = (low + high) / 2;
      const p = most(sign * Math.exp(middle));
      const variance = sum(of.map(({ weight, m }, k) => (weight ** 2 * p[k] * (1 - p[k])) / m));
      if ((estimate - mean(p)) ** 2 > z ** 2 * variance + 1e-13) high = middle;
      else low = middle;
    }
    return mean(most(sign * Math.exp(high)));
  };
  const [labelled, found] = [1, 2].map((column) => sum(sampled.map((row) => row[column])));
  const rare = (count) => [1, 0.0512932944, 0.1776807553, 0.2725638157][count] ?? 1;
  const low = Math.max(Math.min(end(1), estimate * rare(found)), found / every);
  const right = labelled - found;
  const high = Math.min(Math.max(end(-1), 1 - (1 - estimate) * rare(right)), 1 - right / every);
  return [estimate, part * low, part * high + 1 - part];
};

(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const plain = (key) => key.normalize("NFC").trim();
  const state = (part) => ({
    labels: new Map(), // by key
    done: [], // keys in the order of the answers, for undo
    others: [], // rows of loaded files that are not of this page: key, label, how
    unsent: new Map(), // rows that the server does not have: key and label, and how for others
    known: new Map(part.pairs.map((pair) => [plain(pair.key), pair.key])),
  });
  const parts = data.parts.map((part) => ({ ...part, ...state(part) }));
  let part = parts[0];
  const served = location.protocol === "http:" && ["127.0.0.1", "localhost"].includes(location.hostname);
  let kept = true; // whether this browser keeps answers
  let saved = true; // whether a file has them

  const fits = (of) => ([key, label]) => of.known.get(plain(key)) === key && of.takes.includes(label);

  // Progress in this browser. Storage may be blocked, full or edited.
  const place = (of) => `mispair review ${of.digest} ${of.name}`;
  const keep = (of = part) => {
    const { labels, done, others, unsent } = of;
    try {
      localStorage.setItem(place(of), JSON.stringify({ labels: [...labels], done, others, unsent: [...unsent] }));
      kept = true;
    } catch {
      kept = false;
    }
  };
  const recall = (of) => {
    try {
      const found = JSON.parse(localStorage.getItem(place(of)));
      if (!found) return;
      const labels = new Map(found.labels.filter(fits(of)));
      const done = found.done.filter((key) => labels.has(key));
      const unsent = new Map(found.unsent.filter(([, row]) => Array.isArray(row)));
      Object.assign(of, { labels, done, others: [...found.others], unsent });
    } catch {
      kept = false;
    }
  };

  // The server, where there is one. One request at a time, so that an undo never overtakes its answer.
  let queue = Promise.resolve();
  let failed = false;
  const ask = async (of, options) => {
    const answer = await fetch(`labels/${of.name}`, options);
    if (!answer.ok) throw new Error(answer.statusText);
    return answer.json();
  };
  const flush = async (of) => {
    const rows = [...of.unsent];
    if (!rows.length) return;
    try {
      const body = JSON.stringify(rows.map(([, row]) => row));
      await ask(of, { method: "POST", headers: { "Content-Type": "application/json" }, body });
      rows.forEach(([id, row]) => of.unsent.get(id) === row && of.unsent.delete(id));
      keep(of);
      failed = false;
    } catch {
      failed = true;
    }
    warn();
  };
  const send = (key, label, ...how) => {
    if (!served) return;
    const of = part;
    of.unsent.set(JSON.stringify([key, ...how]), [key, label, ...how]);
    queue = queue.then(() => flush(of));
  };
  const warn = () => {
    const unsent = parts.reduce((sum, of) => sum + of.unsent.size, 0);
    $("notice").textContent = failed
      ? `${unsent} answers are not in the file of the server, which does not answer. Save them as CSV, or start mispair review again.`
      : kept ? "" : "This browser does not keep answers. Save them as CSV before you close the page.";
    $("notice").hidden = !$("notice").textContent;
  };

  // The current interval: unsure pairs count as right in its lower limit and as wrong in its upper one.
  const percent = (value) => (value === 0 ? "none" : value < 0.0005 ? "below 0.1 %" : `${(100 * value).toFixed(1)} %`);
  const estimate = () => {
    const given = part.pairs.filter((pair) => part.labels.has(pair.key));
    const counts = (...labels) => part.strata.map((pairs, stratum) => {
      const here = given.filter((pair) => pair.stratum === stratum).map((pair) => part.labels.get(pair.key));
      return [pairs, here.length, here.filter((label) => labels.includes(label)).length];
    });
    const shares = part.shares.map(({ words, label }) => {
      const [value, low] = interval(counts(label));
      const [, , high] = interval(counts(label, "unsure"));
      return `${words}: ${percent(value)} (95 % interval ${percent(low)} to ${percent(high)})`;
    });
    return given.length ? `${shares.join("; ")}.` : "";
  };

  // What is shown.
  const current = () => part.pairs.find((pair) => !part.labels.has(pair.key));
  const show = (said = "") => {
    const pair = current();
    const picture = pair && data.pictures[pair.picture];
    $("card").hidden = !pair;
    $("finished").hidden = Boolean(pair);
    $("zoom").hidden = !picture;
    $("missing").hidden = Boolean(picture);
    $("question").textContent = part.question;
    zoom(false);
    const place = `Pair ${part.pairs.indexOf(pair) + 1} of ${part.pairs.length}`;
    if (picture) $("picture").src = picture;
    else $("picture").removeAttribute("src");
    $("picture").alt = `The picture of the pair. ${place}`;
    $("texts").replaceChildren(...(pair ? pair.texts : []).map((text, number) => {
      const box = document.createElement("div");
      const caption = document.createElement("p");
      caption.className = "caption";
      caption.dir = "auto";
      caption.textContent = text || "(no caption)";
      if (pair.texts.length > 1) {
        box.append(Object.assign(document.createElement("h3"), { textContent: "AB"[number] }));
      }
      box.append(caption);
      return box;
    }));
    document.querySelectorAll("#answers button").forEach((button) => { button.disabled = !pair; });
    $("undo").disabled = !part.done.length;
    $("counter").textContent = `${part.labels.size} of ${part.pairs.length} labelled`;
    $("estimate").textContent = estimate();
    const captions = pair && pair.texts.map((text, number) => (pair.texts.length > 1 ? `${"AB"[number]}: ${text}` : text));
    $("said").textContent = `${said} ${pair ? `${place}: ${captions.join(". ")}` : $("finished").textContent}`;
    warn();
  };
  const zoom = (on) => {
    $("zoom").setAttribute("aria-pressed", String(on));
    $("zoom").scrollTo(0, 0);
  };
  const toggle = () => zoom($("zoom").getAttribute("aria-pressed") !== "true");

  // Answers.
  const answer = (chosen) => {
    const pair = current();
    if (!pair) return;
    const label = chosen.label ?? pair.fits[chosen.text];
    part.labels.set(pair.key, label);
    part.done.push(pair.key);
    saved = false;
    send(pair.key, label);
    keep();
    show(`${chosen.words}.`);
  };
  const undo = () => {
    const key = part.done.pop();
    if (key === undefined) return;
    part.labels.delete(key);
    send(key, "");
    keep();
    show("Undone.");
  };
  const change = (to) => {
    part = to;
    document.querySelectorAll("#parts button").forEach((button, number) => {
      if (parts[number] === part) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    });
    const named = (words, key) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(words, Object.assign(document.createElement("kbd"), { textContent: key.toUpperCase() }));
      return button;
    };
    $("answers").replaceChildren(...part.answers.map((one) => {
      const button = named(one.words, one.key);
      button.addEventListener("click", () => answer(one));
      return button;
    }));
    const lines = [
      ...part.answers.map((one, number) => [one.words, `${one.key} or ${number + 1}${one.swipe ? `, or swipe ${one.swipe}` : ""}`]),
      ["Undo", "Backspace"], ["Enlarge the picture", "z, or a click on it; Escape ends it"],
    ];
    $("keys").replaceChildren(...lines.flatMap(([what, how]) => [
      Object.assign(document.createElement("dt"), { textContent: what }),
      Object.assign(document.createElement("dd"), { textContent: how }),
    ]));
    show();
  };

  // CSV, also from spreadsheets: a mark at the start, semicolons or tabs, upper case.
  const cell = (text) => (/[",;\r\n\t]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const parsed = (text) => {
    const letters = text.replace(/^\uFEFF/, "").replace(/\r\n?/g, "\n");
    const [first] = letters.split("\n", 1);
    const mark = [",", ";", "\t"].reduce((a, b) => (first.split(b).length > first.split(a).length ? b : a));
    const rows = [[""]];
    let quoted = false;
    for (let at = 0; at < letters.length; at += 1) {
      const row = rows[rows.length - 1];
      const letter = letters[at];
      if (quoted && letter === '"' && letters[at + 1] === '"') row[row.length - 1] += letters[at += 1];
      else if (letter === '"' && (quoted || row[row.length - 1] === "")) quoted = !quoted;
      else if (!quoted && letter === mark) row.push("");
      else if (!quoted && letter === "\n") rows.push([""]);
      else row[row.length - 1] += letter;
    }
    return rows.filter((row, number) => row.some((one) => one.trim() !== "") && (number || !/^sep=/i.test(row[0])));
  };
  const csv = () => {
    const ours = part.pairs.filter((pair) => part.labels.has(pair.key)).map((pair) => [pair.key, part.labels.get(pair.key), "drawn"]);
    return [["key", "label", "how"], ...ours, ...part.others].map((row) => `${row.map(cell).join(",")}\n`).join("");
  };
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
    link.download = part.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    saved = true;
  };
  const load = (text) => {
    const [head = [], ...rows] = parsed(text);
    const names = head.map((name) => name.trim().toLowerCase());
    const [key, label, how] = ["key", "label", "how"].map((name) => names.indexOf(name));
    if (key < 0 || label < 0) return "This file has no columns key and label; nothing was read.";
    const counts = { added: 0, same: 0, other: 0, unknown: 0, odd: 0, chosen: 0 };
    for (const row of rows) {
      const name = part.known.get(plain(row[key] ?? "")) ?? row[key] ?? "";
      const [given, origin] = [label, how].map((at) => (row[at] ?? "").trim().toLowerCase());
      const here = part.labels.get(name);
      const kind = origin === "chosen" ? "chosen" : !part.takes.includes(given) ? "odd" : !part.known.has(plain(name)) ? "unknown"
        : here === undefined ? "added" : here === given ? "same" : "other";
      counts[kind] += 1;
      if (kind === "added") {
        part.labels.set(name, given);
        send(name, given);
      } else if (["chosen", "odd", "unknown"].includes(kind)) {
        const foreign = [name, given, origin];
        if (!part.others.some((one) => one.join("\n") === foreign.join("\n"))) part.others.push(foreign);
        if (part.takes.includes(given) && ["", "drawn", "chosen"].includes(origin)) send(...foreign);
      }
    }
    const words = {
      added: "labels added", same: "the same as here", other: "different from your answers, which stay",
      unknown: "of keys that are not on this page", odd: "with another label", chosen: "of chosen pairs",
    };
    const kinds = Object.entries(counts).filter(([, number]) => number).map(([kind, number]) => `${number} ${words[kind]}`);
    const rest = served ? "are in the file as well, and those with another label are in a saved CSV" : "are saved again";
    return `${rows.length} rows read: ${kinds.join(", ")}. No row is lost: those of no pair here ${rest}.`;
  };
  $("load").addEventListener("change", async () => {
    const [file] = $("load").files;
    if (!file) return;
    $("loaded").textContent = load(await file.text());
    $("load").value = "";
    keep();
    show();
  });

  // Keys and fingers.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") zoom(false);
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || !$("shortcuts").checked) return;
    const key = event.key.toLowerCase();
    const chosen = part.answers.find((one, number) => key === one.key || key === String(number + 1));
    if (chosen) answer(chosen);
    else if (key === "backspace") undo();
    else if (key === "z") toggle();
    else return;
    event.preventDefault();
  });
  let start = null;
  $("card").addEventListener("touchstart", (event) => {
    start = event.touches.length === 1 ? event.touches[0] : null;
  }, { passive: true });
  $("card").addEventListener("touchend", (event) => {
    const from = start;
    const to = event.changedTouches[0];
    start = null;
    const enlarged = $("zoom").getAttribute("aria-pressed") === "true" || (window.visualViewport?.scale ?? 1) > 1.01;
    if (!from || event.touches.length || enlarged) return;
    const [x, y] = [to.clientX - from.clientX, to.clientY - from.clientY];
    if (Math.abs(x) < 70 || Math.abs(x) < 2 * Math.abs(y)) return;
    answer(part.answers.find((one) => one.swipe === (x > 0 ? "right" : "left")));
  }, { passive: true });
  $("zoom").addEventListener("click", toggle);
  $("undo").addEventListener("click", undo);
  $("save").addEventListener("click", save);
  window.addEventListener("storage", (event) => {
    const of = parts.find((one) => place(one) === event.key);
    if (of) recall(of);
    if (of === part) show();
  });
  window.addEventListener("beforeunload", (event) => {
    if (!saved && (served ? failed : !kept)) event.preventDefault();
  });

  // Begin.
  $("parts").hidden = parts.length < 2;
  $("parts").replaceChildren(...parts.map((one) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: one.title });
    button.addEventListener("click", () => change(one));
    return button;
  }));
  parts.forEach(recall);
  change(part);
  if (served) {
    parts.forEach((of) => {
      queue = queue.then(async () => {
        try {
          const rows = (await ask(of)).map(([key, label]) => [of.known.get(plain(key)) ?? key, label]);
          const own = [...of.unsent.values()].filter((row) => row.length === 2);
          of.labels = new Map([...new Map([...rows, ...own])].filter(fits(of)));
          of.done = of.done.filter((key) => of.labels.has(key));
        } catch {
          failed = true;
        }
        await flush(of);
        show();
      });
    });
  }
})();

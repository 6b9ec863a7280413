"use strict";
(() => {
  // Colours that readers with any kind of colour vision tell apart (after Okabe and Ito), by light and dark page.
  const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6b6b6b"];
  const DARK = ["#56b4e9", "#ff8a3d", "#2bc29a", "#e19ac4", "#8fb7ff", "#e6b422", "#b0b0b0"];
  const DASHES = ["", "6 3", "2 2", "8 2 2 2"];
  const ROLES = ["worker", "parameter server", "chunk"];
  const ENDINGS = ["finished", "suspended", "moved", "lost its server", "held at the end of the run"];
  const [SUSPENDED, LOST] = [1, 3];
  const DECADES_S = [1, 10, 60, 600, 3600, 36000, 86400, 864000, 8640000, 86400000];
  const STEPS_S = [1e-3, 0.01, 0.1, 1, 5, 15, 60, 300, 900, 3600, 10800, 21600, 43200, 86400, 172800, 432000, 864000, 2592000, 8640000, 31536000, 315360000];
  const BOX = ["5 %", "25 %", "median", "75 %", "95 %"];
  const MOST_LISTED = 10;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const hues = () => (dark.matches && !matchMedia("print").matches ? DARK : LIGHT);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const SVG = "http://www.w3.org/2000/svg";
  const set = (node, attributes) => { for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value); };
  const put = (parent, made, text, attributes) => { made.textContent = text; set(made, attributes); return parent.appendChild(made); };
  const add = (parent, tag, text = "", attributes = {}) => put(parent, document.createElement(tag), text, attributes);
  const draw = (parent, tag, attributes = {}, text = "") => put(parent, document.createElementNS(SVG, tag), text, attributes);
  const line = (parent, x1, x2, y1, y2, stroke, attributes = {}) => draw(parent, "line", { x1, x2, y1, y2, stroke, ...attributes });
  const pen = Object.assign(document.createElement("canvas").getContext("2d"), { font: "12px system-ui, sans-serif" });
  const widthOf = (text) => pen.measureText(text).width;
  const cut = (text, width) => { while (text.length > 2 && widthOf(text) > width) text = text.replace(/[^]…?$/, "…"); return text; };

  function human(seconds) {
    if (seconds < 0) return "-" + human(-seconds);
    if (seconds < 10) return `${+seconds.toPrecision(3)} s`;
    for (const [large, size, small, part, finer] of [["d", 86400, "h", 3600, 60], ["h", 3600, "min", 60, 1], ["min", 60, "s", 1, 1]]) {
      if (Math.round(seconds / finer) * finer < size) continue;
      const parts = Math.round(seconds / part), rest = parts % (size / part), whole = `${Math.floor(parts / (size / part)).toLocaleString("en")} ${large}`;
      return rest ? `${whole} ${rest} ${small}` : whole;
    }
    return `${Math.round(seconds)} s`;
  }
  const amount = (value) => (value === null ? "-" : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : `${+value.toPrecision(4)}`);
  const round = (rough) => { const unit = 10 ** Math.floor(Math.log10(rough)); return [1, 2, 2.5, 5, 10].map((each) => each * unit).find((each) => each >= rough * 0.999); };
  const upper = (values, low, high, wanted) => {  // first index whose value is greater
    while (low < high) { const middle = (low + high) >> 1; if (values[middle] > wanted) high = middle; else low = middle + 1; }
    return low;
  };
  const sums = (counts) => { const total = new Int32Array(counts.length + 1); counts.forEach((n, i) => { total[i + 1] = total[i] + n; }); return total; };

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)), stream = new Blob([bytes]).stream();
    return new Response(stream.pipeThrough(new DecompressionStream("deflate"))).json();
  }

  const axes = new Set(), hidden = new Set();
  const redraw = () => { for (const axis of axes) axis.redraw(); };

  /** Visible range of x. `kind`: time, span (a duration), log (a duration of at least a second) or number. */
  class Axis {
    constructor(kind) { Object.assign(this, { kind, charts: new Set(), min: Infinity, max: -Infinity, origin: 0, due: false }); axes.add(this); }
    at(value) { return this.kind === "log" ? Math.log10(Math.max(value, 1)) : value; }
    value(at) { return this.kind === "log" ? 10 ** at : at; }
    join(chart, min, max) { this.charts.add(chart); this.min = Math.min(this.min, this.at(min)); this.max = Math.max(this.max, this.at(max)); }
    set(low, high) {
      const span = Math.min(Math.max(high - low, (this.max - this.min) * 1e-6), this.max - this.min);
      this.low = Math.max(this.min, Math.min(low, this.max - span)); this.high = this.low + span; this.redraw();
    }
    zoom(factor, at = (this.low + this.high) / 2) { this.set(at - (at - this.low) * factor, at + (this.high - at) * factor); }
    pan(share) { const step = (this.high - this.low) * share; this.set(this.low + step, this.high + step); }
    /** Text of a value; an instant counts from second 0, or with "+" from the first event where second 0 is long before, as with dates. */
    text(value) { return this.kind === "number" ? amount(value) : this.origin ? `+${human(value - this.origin)}` : human(value); }
    ticks(most) {
      const low = this.value(this.low), high = this.value(this.high);
      if (this.kind === "log" && high > 20 * low) return DECADES_S.filter((each) => low <= each && each <= high);
      const least = (high - low) / Math.max(2, most), step = this.kind === "number" ? round(least) : STEPS_S.find((each) => each >= least) || STEPS_S.at(-1);
      const first = Math.ceil((low - this.origin) / step), last = Math.floor((high - this.origin) / step);
      return Array.from({ length: last - first + 1 }, (_, i) => this.origin + (first + i) * step);
    }
    /** Leave out the end of a time, if a few jobs there outlive the others by far. */
    start() {
      if (!(this.min <= this.max)) this.min = this.max = 0;  // nothing to show
      this.max = Math.max(this.max, this.min + 1e-3); this.low = this.min; this.high = this.max;
      this.origin = this.kind === "time" && this.min > 10 * (this.max - this.min) ? this.min : 0;
      const span = (Math.max(...[...this.charts].map((chart) => chart.data.focus_s ?? -Infinity)) - this.min) * 1.25;
      this.set(this.min, span > 0 && span < (this.max - this.min) / 2 ? this.min + span : this.max);
    }
    redraw() {
      if (this.due || this.low === undefined) return; this.due = true;
      requestAnimationFrame(() => { this.due = false; for (const chart of this.charts) if (chart.holder.clientWidth > 50) chart.draw(); });
    }
  }

  /** Names with their colours as buttons; one that is off is off in all charts of the page. */
  class Legend {
    constructor(holder) { this.holder = holder; this.names = new Map(); }
    join(name, button) {
      if (this.names.has(name)) return; this.names.set(name, this.names.size); if (!button) return;
      const made = add(this.holder, "button", "", { type: "button", "aria-pressed": "true", "data-name": name, title: `hide or show ${name} in all charts` });
      this.line(draw(made, "svg", { viewBox: "0 0 26 8" }), name, 4); made.append(name);
      made.onclick = () => {
        if (!hidden.delete(name)) hidden.add(name); redraw();
        for (const each of document.querySelectorAll("button[data-name]")) each.setAttribute("aria-pressed", String(!hidden.has(each.dataset.name)));
      };
    }
    colour(name) { return hues()[this.names.get(name) % hues().length]; }
    dash(name) { return DASHES[Math.floor(this.names.get(name) / hues().length) % DASHES.length]; }
    line(svg, name, y) { line(svg, 0, 26, y, y, this.colour(name), { "stroke-width": 3, "stroke-dasharray": this.dash(name) }); }
    paint() { for (const each of this.holder.querySelectorAll("button[data-name]")) set(each.querySelector("line"), { stroke: this.colour(each.dataset.name) }); }
  }

  /** A picture with an x axis, buttons, drags, pinches, wheel and keys; subclasses draw. */
  class Chart {
    constructor(figure, data, section, kind) {
      Object.assign(this, { figure, data, section, axis: kind === "time" ? section.time : new Axis(kind) }); this.tools = add(figure, "div", "", { class: "tools" });
      const { axis } = this, button = (label, title, act) => { add(this.tools, "button", label, { type: "button", title, "aria-label": title }).onclick = act; };
      this.keys = { "+": () => axis.zoom(0.5), "-": () => axis.zoom(2), ArrowLeft: () => axis.pan(-0.3), ArrowRight: () => axis.pan(0.3), 0: () => axis.set(axis.min, axis.max) };
      for (const [label, title, key] of [["+", "zoom in", "+"], ["−", "zoom out", "-"], ["‹", "move left", "ArrowLeft"], ["›", "move right", "ArrowRight"], ["all", "show all", "0"]]) button(label, title, this.keys[key]);
      button("CSV", "copy the numbers as CSV", () => this.copy(this.csv())); button("SVG", "copy the picture as SVG", () => this.copy(this.exported()));
      this.legend = data.shared ? section.legend : new Legend(this.tools); this.holder = add(figure, "div");
      this.svg = draw(this.holder, "svg", { tabindex: "0", role: "img", "aria-label": figure.querySelector("figcaption").textContent });
      this.readout = add(figure, "p", "", { class: "readout" }); this.details = add(figure, "div", "", { class: "details", "aria-live": "polite" });
      this.readout.textContent = data.note || ""; this.listen(); new ResizeObserver(() => axis.redraw()).observe(this.holder);
    }
    listen() {
      const { svg, axis } = this, held = new Map(); let moved = 0;
      const place = (event) => { const box = svg.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
      svg.onpointerdown = (event) => { svg.setPointerCapture(event.pointerId); held.set(event.pointerId, place(event)); moved = 0; };
      svg.onpointermove = (event) => {
        const now = place(event), before = held.get(event.pointerId), others = [...held].filter(([id]) => id !== event.pointerId);
        if (!before) { this.hover(...now); return; }
        if (others.length) {
          const other = others[0][1][0], [from, to] = [Math.abs(before[0] - other), Math.abs(now[0] - other)];
          if (from > 5 && to > 5) axis.zoom(from / to, this.atOf(other));
        } else axis.pan((before[0] - now[0]) / this.width);
        moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]); held.set(event.pointerId, now);
      };
      svg.onpointerup = (event) => { if (held.delete(event.pointerId) && moved < 5) { this.hover(...place(event)); this.click(...place(event)); } };
      svg.onpointercancel = (event) => held.delete(event.pointerId); svg.ondblclick = (event) => axis.zoom(0.4, this.atOf(place(event)[0]));
      svg.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;  // the page scrolls
        event.preventDefault(); if (event.shiftKey) axis.pan(Math.sign(event.deltaY + event.deltaX) * 0.1);
        else axis.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.atOf(place(event)[0]));
      }, { passive: false });
      svg.onkeydown = (event) => { const act = this.keys[event.key]; if (act) { act(); event.preventDefault(); } };
    }
    click() {}
    /** Copy a text; where the browser does not allow it, show it. */
    async copy(text) {
      try {
        await navigator.clipboard.writeText(text); this.readout.textContent = `copied ${text.length.toLocaleString("en")} characters`;
      } catch {
        this.details.replaceChildren(); this.readout.textContent = "select all and copy";
        add(this.details, "textarea", text, { readonly: "", rows: 8, "aria-label": "text to copy" }).select();
      }
    }
    table(rows) { return rows.map((row) => row.map((each) => (/[",\n]/.test(each) ? `"${String(each).replaceAll('"', '""')}"` : each ?? "")).join(",") + "\n").join(""); }
    /** The picture as a document of its own, with its names, on the page's colour. */
    exported() {
      const copy = this.svg.cloneNode(true), names = [...new Set(this.shown().map((each) => each.name))], high = this.height + 18 * names.length + 6;
      set(copy, { xmlns: SVG, height: high, viewBox: `0 0 ${this.full} ${high}` });
      names.forEach((name, i) => {
        const entry = draw(copy, "g", { transform: `translate(${this.left}, ${this.height + 12 + 18 * i})` });
        this.legend.line(entry, name, 0); draw(entry, "text", { x: 34, y: 4, fill: css("--ink") }, name);
      });
      copy.prepend(draw(copy, "rect", { width: "100%", height: "100%", fill: css("--paper") })); return new XMLSerializer().serializeToString(copy);
    }
    atOf(x) { return this.axis.low + Math.min(Math.max((x - this.left) / this.width, 0), 1) * (this.axis.high - this.axis.low); }
    valueOf(x) { return this.axis.value(this.atOf(x)); }
    xOf(value) { return this.left + (this.axis.at(value) - this.axis.low) / (this.axis.high - this.axis.low) * this.width; }
    /** Begin a picture of this size: x axis with labels at height y, lines between two heights; returns what clips to the plot. */
    begin(height, left, top, bottom, y, [from, to] = [top, height - bottom]) {
      const full = this.holder.clientWidth;
      Object.assign(this, { full, height, left, top, width: Math.max(full - left - 12, 10), plot: height - top - bottom }); this.svg.replaceChildren();
      set(this.svg, { width: full, height, viewBox: `0 0 ${full} ${height}`, "font-family": "system-ui, sans-serif", "font-size": 12 }); let free = 0;
      for (const value of this.axis.ticks(this.width / 85)) {
        const x = this.xOf(value), text = this.axis.text(value), half = widthOf(text) / 2, at = Math.min(Math.max(x, half), full - half);
        line(this.svg, x, x, from, to, css("--line")); if (at - half < free) continue; free = at + half + 6; this.word(text, at, y, "middle");
      }
      this.word(this.data.y_title, 0, 12); this.word(this.data.x_title, full - 2, height - 4, "end");
      this.legend.paint(); this.cursor = line(this.svg, 0, 0, from, to, css("--faint"), { visibility: "hidden" });
      return draw(this.svg, "svg", { x: left, y: top, width: this.width, height: this.plot });
    }
    shown() { return this.data.series.filter(({ name, seed }) => !hidden.has(name) && (seed ?? this.section.seed) === this.section.seed); }
    word(text, x, y, anchor = "start", ink = "--faint") { return draw(this.svg, "text", { x, y, "text-anchor": anchor, fill: css(ink) }, cut(text, this.full - 8)); }
    point(x) { set(this.cursor, { visibility: "visible", x1: x, x2: x }); }
    /** List the jobs of a policy, or of one of its classes, with completion times nearest to one. */
    jobs(name, jct_s, by, group) {
      const { x, jobs } = this.section.jobs.get(name) || { x: [], jobs: null }; this.details.replaceChildren(); if (!jobs) return;
      const among = x.map((_, i) => i).filter((i) => !by || jobs[by][i] === group);
      const near = among.sort((a, b) => Math.abs(x[a] - jct_s) - Math.abs(x[b] - jct_s)).slice(0, MOST_LISTED).sort((a, b) => x[a] - x[b]);
      add(this.details, "h3", `${name}${by ? `, ${this.data.groups[group]}` : ""}: jobs with a completion time near ${human(jct_s)}`);
      const table = add(add(this.details, "div", "", { class: "wide" }), "table"), head = add(table, "tr");
      for (const title of ["job", "seed", "completion time", "submitted", "run time", "wait"]) add(head, "th", title);
      for (const i of near) {
        const row = add(table, "tr"), times = [human(x[i]), this.section.time.text(jobs.submit_s[i]), human(jobs.run_s[i]), human(jobs.queue_s[i])];
        for (const text of [jobs.id[i], jobs.seed[i] ?? "any", ...times]) add(row, "td", text);
      }
      add(this.details, "p", `${near.length} of the ${among.length} jobs in this page.`, { class: "note" });
    }
  }

  /** Step lines, each of which can be switched off: over time, or shares of jobs by their completion time. */
  class Lines extends Chart {
    constructor(figure, data, section) {
      super(figure, data, section, data.x);
      for (const series of data.series) {
        this.legend.join(series.name, data.shared || data.series.length > 1); if (series.jobs) section.jobs.set(series.name, series);
        if (series.seed !== undefined) section.seeds.add(series.seed);
      }
      const ends = data.series.flatMap(({ x }) => (x.length ? [x[0], x.at(-1)] : [])), [from, to] = [Math.min(...ends), Math.max(...ends)];
      const margin = data.points ? (to - from) * 0.04 : 0; this.axis.join(this, from - margin, to + margin);
    }
    draw() {
      const plot = this.begin(250, Math.min(56, this.holder.clientWidth * 0.16), 24, this.data.x_title ? 38 : 22, this.data.x_title ? 228 : 244);
      const lines = this.shown(), first = ({ x }) => Math.max(upper(x, 0, x.length, this.axis.value(this.axis.low)) - 1, 0), end = this.axis.value(this.axis.high);
      let [low, high] = [0, 0];
      for (const { x, y, low: least = y, high: most = y } of lines) for (let i = first({ x }); i < x.length && x[i] <= end; i++) { high = Math.max(high, y[i], most[i]); low = Math.min(low, y[i], least[i]); }
      high = high > low ? high : low + 1; const yOf = this.yOf = (value) => this.plot * (high - value) / (high - low), step = round((high - low) / 4);
      for (let i = Math.ceil(low / step - 1e-9); i * step <= high * 1.001; i++) {
        const y = this.top + yOf(i * step);
        line(this.svg, this.left, this.left + this.width, y, y, css("--line")); this.word(amount(i * step), this.left - 5, y + 4, "end");
      }
      this.svg.append(plot);
      for (const { x, y, name, low, high } of lines) {
        const parts = [], colour = this.legend.colour(name); let open = false;
        for (let i = first({ x }); i < x.length && x[i] <= end; i++) {
          if (y[i] === null) { open = false; continue; }
          const at = this.xOf(x[i]) - this.left; parts.push(`${open ? "L" : "M"}${at.toFixed(1)} ${yOf(y[i]).toFixed(1)}`); open = true;
          if (!this.data.points) { parts.push(`H${(this.xOf(x[i + 1] ?? x[i]) - this.left).toFixed(1)}`); continue; }
          draw(plot, "circle", { cx: at, cy: yOf(y[i]), r: 4, fill: colour }); if (low[i] !== null) line(plot, at, at, yOf(low[i]), yOf(high[i]), colour, { "stroke-width": 2 });
        }
        draw(plot, "path", { d: parts.join(""), fill: "none", stroke: colour, "stroke-width": 1.5, "stroke-dasharray": this.legend.dash(name), "data-series": name });
      }
      this.svg.dataset.drawn = "";
    }
    valuesAt(value) { return this.shown().flatMap((line) => { const i = upper(line.x, 0, line.x.length, value) - 1; return i < 0 ? [] : [[line, line.y[i], i]]; }); }
    hover(x) {
      let value = this.valueOf(x); const far = (each) => Math.abs(each - value);
      if (this.data.points) [value] = this.shown().flatMap((each) => each.x).sort((a, b) => far(a) - far(b));
      const ends = ({ low, high }, i) => (low && low[i] !== null ? ` (${amount(low[i])} to ${amount(high[i])})` : "");
      this.point(this.xOf(value)); this.readout.textContent = [this.axis.text(value), ...this.valuesAt(value).map(([each, y, i]) => `${each.name} ${amount(y)}${ends(each, i)}`)].join(" · ");
    }
    click(x, y) {
      const far = ([, value]) => Math.abs(this.top + this.yOf(value) - y), [nearest] = this.valuesAt(this.valueOf(x)).sort((a, b) => far(a) - far(b));
      if (nearest && nearest[0].jobs) this.jobs(nearest[0].name, this.valueOf(x));
    }
    csv() {
      const ends = this.data.points ? ["95 % low", "95 % high"] : [], rest = ({ low, high }, i) => (this.data.points ? [low[i], high[i]] : []);
      return this.table([["name", "seed", this.data.x_title || "time_s", this.data.y_title || "value", ...ends], ...this.shown().flatMap((each) => each.x.map((x, i) => [each.name, each.seed, x, each.y[i], ...rest(each, i)]))]);
    }
  }

  /** A row for each policy: a box of completion times in each class; or a mean with its interval, and values of seeds. */
  class Rows extends Chart {
    constructor(figure, data, section) {
      super(figure, data, section, data.x);
      for (const { name } of data.series) this.legend.join(name, true);
      const values = data.series.flatMap((row) => row.box || [row.mean, row.low ?? row.mean, row.high ?? row.mean, ...(row.values || [])]);
      const [low, high] = [Math.min(...values, data.x === "log" ? Infinity : 0), Math.max(...values, data.x === "log" ? 1 : 0)];
      const margin = data.x === "log" ? 0 : (high - low) * 0.04;
      this.axis.join(this, data.x === "log" ? low / 1.3 : low - margin, data.x === "log" ? high * 1.3 : high + margin);
    }
    draw() {
      const rows = this.shown(), boxes = "groups" in this.data, starts = rows.map((row, i) => boxes && row.group !== rows[i - 1]?.group); let y = 26;
      this.middles = rows.map((_, i) => { y += boxes ? (starts[i] ? 22 : 0) + 13 : 34; return y - (boxes ? 6 : 8); });
      const plot = this.begin(y + 40, 2, 24, 38, y + 18); if (!boxes) line(this.svg, this.xOf(0), this.xOf(0), 24, y + 2, css("--faint"));
      this.svg.append(plot);
      rows.forEach((row, i) => {
        const middle = this.middles[i] - this.top, colour = this.legend.colour(row.name), x = (value) => this.xOf(value) - this.left;
        const bar = (low, high, thick, tall = 0) => line(plot, x(low), x(high), middle - tall, middle + tall, tall ? css("--ink") : colour, { "stroke-width": thick });
        const dot = (value, r, opacity) => draw(plot, "circle", { cx: x(value), cy: middle, r, fill: colour, "fill-opacity": opacity, "data-series": row.name });
        if (boxes) {
          if (starts[i]) this.label(this.data.groups[row.group], this.middles[i] - 10);
          bar(row.box[0], row.box[4], 1); draw(plot, "rect", { x: x(row.box[1]), width: Math.max(x(row.box[3]) - x(row.box[1]), 1), y: middle - 4.5, height: 9, fill: colour, "data-series": row.name });
          bar(row.box[2], row.box[2], 2, 5.5); return;
        }
        this.label(`${row.name}: ${this.numbers(row)}`, this.middles[i] - 10); (row.values || []).forEach((value) => dot(value, 3, 0.35));
        if (row.low !== undefined) bar(row.low, row.high, 2);
        dot(row.mean, 5, 1);
      });
      this.svg.dataset.drawn = "";
    }
    label(text, y) { set(this.word(text, 4, y, "start", "--ink"), { "paint-order": "stroke", stroke: css("--paper"), "stroke-width": 3 }); }
    numbers(row) {
      const text = (value) => this.axis.text(value); if (row.box) return row.box.map((value, i) => `${BOX[i]} ${text(value)}`).join(" · ");
      return text(row.mean) + (row.low === undefined ? "" : ` (${text(row.low)} to ${text(row.high)})`);
    }
    rowAt(y) { const i = this.middles.findIndex((middle) => Math.abs(middle - y) < ("groups" in this.data ? 7 : 18)); return this.shown()[i]; }
    hover(x, y) {
      const row = this.rowAt(y), far = (i) => Math.abs(this.xOf(row.values[i]) - x); if (!row) return;
      const [seed] = (row.values || []).map((_, i) => i).sort((a, b) => far(a) - far(b)), group = row.box ? `${this.data.groups[row.group]} · ` : "";
      this.point(x); this.readout.textContent = `${group}${row.name} · ${this.numbers(row)}${seed === undefined ? "" : ` · seed ${row.seeds[seed]}: ${this.axis.text(row.values[seed])}`}`;
    }
    click(x, y) { const row = this.rowAt(y); if (row && row.box) this.jobs(row.name, this.valueOf(x), this.data.by, row.group); }
    csv() {
      if ("groups" in this.data) return this.table([[this.data.by, "name", ...BOX.map((each) => `${each} s`)], ...this.shown().map((row) => [this.data.groups[row.group], row.name, ...row.box])]);
      const lines = (row) => [["mean", row.mean], ["95 % low", row.low], ["95 % high", row.high], ...(row.values || []).map((value, i) => [`seed ${row.seeds[i]}`, value])];
      return this.table([["name", "what", this.data.x_title + (this.axis.kind === "span" ? ", s" : "")], ...this.shown().flatMap((row) => lines(row).map((each) => [row.name, ...each]))]);
    }
  }

  /** Jobs on servers: a row per server, a lane per stay at a time, drawn pixel by pixel. */
  class Gantt extends Chart {
    constructor(figure, data, section, chosen = 0) {
      super(figure, { ...data, note: "Click on a bar for its job. Zoom: buttons, Ctrl and wheel, pinch, double click; “all” shows the whole run." }, section, "time");
      this.holder.className = "scroller"; this.spacer = add(this.holder, "div"); this.stage = add(this.spacer, "div", "", { class: "stage" });
      this.canvas = add(this.stage, "canvas"); this.stage.append(this.svg); this.holder.onscroll = () => this.axis.redraw();
      const find = add(this.tools, "input", "", { type: "search", placeholder: "find a job", "aria-label": "find a job", size: "14" });
      find.onchange = () => this.find(find.value.trim());
      if (data.runs) {
        const runs = add(this.tools, "select", "", { "aria-label": "run" }); data.runs.forEach(({ label }) => add(runs, "option", label));
        runs.selectedIndex = chosen; runs.onchange = () => { this.load(data.runs[runs.selectedIndex]); this.axis.redraw(); };
      }
      this.load(data.runs ? data.runs[chosen] : data);
    }
    load(data) {
      let submit_ms = 0; const submit_s = data.jobs.gap_ms.map((gap) => (submit_ms += gap) / 1000), n = data.job.length;
      this.data = { ...data, x_title: "", y_title: "server", jobs: { ...data.jobs, submit_s } };
      this.begins = new Float64Array(n); this.ends = new Float64Array(n); let at = 0;
      for (let i = 0; i < n; i++) { at += data.begin[i]; this.begins[i] = data.origin_s + at / 1000; this.ends[i] = this.begins[i] + data.length[i] / 1000; }
      this.laneOf = sums(data.lanes); this.barOf = sums(data.bars); this.rowHeights = data.lanes.map((lanes) => Math.max(16, 4 * lanes) + 2);
      this.rowTops = sums(this.rowHeights); this.outagesOf = new Map();
      for (const [server, begin, end] of data.outages) this.outagesOf.set(server, [...(this.outagesOf.get(server) || []), [data.origin_s + begin / 1000, data.origin_s + end / 1000]]);
      this.chosen = -1; this.details.replaceChildren(); this.axis.join(this, data.origin_s, data.origin_s + data.end / 1000);
    }
    draw() {
      const all = this.rowTops.at(-1), axis = 20, height = Math.min(all + axis, Math.max(220, Math.min(560, innerHeight * 0.7)));
      this.holder.style.height = `${height + 2}px`; this.spacer.style.height = `${all + axis}px`;
      const names = this.begin(height, Math.min(130, this.holder.clientWidth * 0.22), axis, 0, 14, [0, axis]), scroll = this.holder.scrollTop; set(names, { x: 0, width: this.left });
      for (let row = this.firstRow(scroll); row < this.data.servers.length && this.rowTops[row] - scroll < height; row++) {
        draw(names, "text", { x: 4, y: this.rowTops[row] - scroll + this.rowHeights[row] / 2 + 4, fill: css("--ink") }, cut(this.data.servers[row], this.left - 8));
      }
      this.bars(scroll); this.svg.dataset.drawn = "";
    }
    firstRow(scroll) { return Math.max(upper(this.rowTops, 0, this.rowTops.length, scroll) - 1, 0); }
    /** Bars of the visible rows. Bars that share a pixel are drawn once: a lane costs at most its pixels. */
    bars(scroll, ratio = window.devicePixelRatio || 1, seen = () => {}) {
      const { data } = this, pixels = Math.floor(this.width * ratio), rows = Math.floor(this.plot * ratio);
      const image = new ImageData(pixels, rows), buffer = new Uint32Array(image.data.buffer);
      const colour = (text, alpha = 1) => { const v = parseInt(text.slice(1), 16), mix = (c, p) => Math.round(c * alpha + p * (1 - alpha));
        const paper = parseInt(css("--paper").slice(1), 16), at = (x, s) => (x >> s) & 255;
        return (255 << 24 | mix(at(v, 0), at(paper, 0)) << 16 | mix(at(v, 8), at(paper, 8)) << 8 | mix(at(v, 16), at(paper, 16))) >>> 0; };
      const paper = colour(css("--paper")), line = colour(css("--line")), ink = colour(css("--ink"));
      const strong = hues().map((hue) => colour(hue)), pale = hues().map((hue) => colour(hue, 0.55)), faint = hues().map((hue) => colour(hue, 0.2));
      const fill = (x0, x1, y0, y1, value) => { seen(x0, x1, Math.max(y0, 0), Math.min(y1, rows), value); for (let y = Math.max(y0, 0); y < Math.min(y1, rows); y++) buffer.fill(value, y * pixels + x0, y * pixels + x1); };
      buffer.fill(paper);
      const scale = pixels / (this.axis.high - this.axis.low), xAt = (seconds) => Math.min(Math.max(Math.round((seconds - this.axis.low) * scale), 0), pixels);
      for (let row = this.firstRow(scroll); row < data.servers.length && this.rowTops[row] - scroll < this.height; row++) {
        const top = (this.rowTops[row] - scroll) * ratio, bottom = top + this.rowHeights[row] * ratio;
        fill(0, pixels, Math.round(bottom) - 1, Math.round(bottom), line);
        for (const [begin, end] of this.outagesOf.get(row) || []) {
          const x0 = xAt(begin), x1 = Math.max(xAt(end), x0 + 1);
          seen(x0, Math.min(x1, pixels), Math.max(Math.round(top), 0), Math.min(Math.round(bottom) - 1, rows), line);
          for (let y = Math.max(Math.round(top), 0); y < Math.min(Math.round(bottom) - 1, rows); y++) for (let x = x0; x < Math.min(x1, pixels); x++) if ((x + y) % 6 < 2) buffer[y * pixels + x] = ink;
        }
        const lanes = data.lanes[row], high = (bottom - top - 2 * ratio) / lanes;
        for (let lane = 0; lane < lanes; lane++) {
          const index = this.laneOf[row] + lane, last = this.barOf[index + 1], y0 = Math.round(top + lane * high), y1 = Math.max(Math.round(top + (lane + 1) * high) - (high > 4 ? 1 : 0), y0 + 1);
          if (y1 <= 0 || y0 >= rows) continue; let bar = upper(this.ends, this.barOf[index], last, this.axis.low);
          while (bar < last && this.begins[bar] < this.axis.high) {
            const x0 = xAt(this.begins[bar]), x1 = Math.min(Math.max(xAt(this.ends[bar]), x0 + 1), pixels), job = data.job[bar];
            const tones = this.chosen < 0 || this.chosen === job ? (data.role[bar] === 1 ? pale : strong) : faint;
            fill(x0, x1, y0, y1, tones[(job * 31 + (job >> 3)) % tones.length]);
            if (x1 - x0 > 3 * ratio) {
              if (data.ending[bar] === SUSPENDED) fill(x1 - Math.ceil(2 * ratio), x1, y0, y1, ink);
              else if (data.ending[bar] === LOST) { for (let y = y0; y < y1; y++) { const x = x1 - 1 - (y - y0) % Math.ceil(4 * ratio); if (y >= 0 && y < rows && x >= x0) buffer[y * pixels + x] = ink; } }
              else fill(x1 - 1, x1, y0, y1, paper);
            }
            const beyond = this.axis.low + x1 / scale;  // skip what ends within the pixels that are drawn
            bar = this.ends[bar + 1] > beyond || bar + 1 >= last ? bar + 1 : Math.max(upper(this.ends, bar + 1, last, beyond), bar + 1);
          }
        }
      }
      Object.assign(this.canvas, { width: pixels, height: rows });
      Object.assign(this.canvas.style, { left: `${this.left}px`, top: `${this.top}px`, width: `${pixels / ratio}px`, height: `${rows / ratio}px` });
      this.canvas.getContext("2d").putImageData(image, 0, 0);
    }
    /** The visible bars as rectangles. */
    exported() {
      const group = draw(this.svg, "g", { transform: `translate(${this.left}, ${this.top})` });
      this.bars(this.holder.scrollTop, 1, (x0, x1, y0, y1, value) => {
        const hex = [value & 255, (value >> 8) & 255, (value >> 16) & 255].map((each) => each.toString(16).padStart(2, "0")).join("");
        if (y1 > y0) draw(group, "rect", { x: x0, y: y0, width: x1 - x0, height: y1 - y0, fill: `#${hex}` });
      });
      const text = super.exported(); group.remove(); this.axis.redraw(); return text;
    }
    shown() { return []; }
    csv() {
      const { data } = this, rows = [];
      data.lanes.forEach((lanes, row) => {
        for (let bar = this.barOf[this.laneOf[row]]; bar < this.barOf[this.laneOf[row] + lanes]; bar++) {
          rows.push([data.servers[row], data.jobs.id[data.job[bar]], data.tasks[bar], ROLES[data.role[bar]], this.begins[bar], this.ends[bar], ENDINGS[data.ending[bar]]]);
        }
      });
      return this.table([["server", "job", "tasks", "role", "begin_s", "end_s", "ending"], ...rows]);
    }
    barAt(x, y) {
      const down = y - this.top + this.holder.scrollTop, row = upper(this.rowTops, 0, this.rowTops.length, down) - 1;
      if (x < this.left || y < this.top || row < 0 || row >= this.data.servers.length) return [row, -1];
      const lane = Math.min(Math.floor((down - this.rowTops[row]) / (this.rowHeights[row] - 2) * this.data.lanes[row]), this.data.lanes[row] - 1);
      const index = this.laneOf[row] + lane, at = this.atOf(x), slack = (this.axis.high - this.axis.low) / this.width * 2;
      const bar = upper(this.ends, this.barOf[index], this.barOf[index + 1], at - slack);
      return [row, bar < this.barOf[index + 1] && this.begins[bar] <= at + slack ? bar : -1];
    }
    hover(x, y) {
      const [row, bar] = this.barAt(x, y), at = this.atOf(x); if (row < 0 || row >= this.data.servers.length) return;
      const parts = [this.data.servers[row], this.axis.text(at)];
      if (bar >= 0) {
        const held = this.data.role[bar] === 2 ? "chunk" : `${this.data.tasks[bar]} × ${ROLES[this.data.role[bar]]}`;
        parts.push(`job ${this.data.jobs.id[this.data.job[bar]]}`, held, `${this.axis.text(this.begins[bar])} to ${this.axis.text(this.ends[bar])}`, ENDINGS[this.data.ending[bar]]);
      } else if ((this.outagesOf.get(row) || []).some(([begin, end]) => begin <= at && at < end)) parts.push("unavailable");
      this.readout.textContent = parts.join(" · ");
    }
    click(x, y) { const [, bar] = this.barAt(x, y); this.choose(bar < 0 ? -1 : this.data.job[bar]); }
    find(name) {
      const ids = this.data.jobs.id, exact = ids.indexOf(name), job = exact >= 0 || !name ? exact : ids.findIndex((id) => id.startsWith(name));
      this.choose(job); const bar = job < 0 ? -1 : this.data.job.indexOf(job); if (name && job < 0) this.readout.textContent = `no job ${name}`;
      if (bar < 0) return; const row = this.laneOf.findLastIndex((lane) => lane <= this.barOf.findLastIndex((first) => first <= bar));
      this.holder.scrollTop = this.rowTops[row] - 40;
      const margin = Math.max(this.ends[bar] - this.begins[bar], (this.axis.max - this.axis.min) / 200);
      this.axis.set(this.begins[bar] - margin, this.ends[bar] + margin);
    }
    choose(job) {
      this.chosen = job; this.details.replaceChildren(); this.axis.redraw(); if (job < 0) return;
      const jobs = this.data.jobs, row = (label, text) => add(this.details, "p", `${label}: ${text}`);
      add(this.details, "h3", `Job ${jobs.id[job]}`); row("status", jobs.status[job]); row("GPUs", amount(jobs.num_gpus[job]));
      row("submitted", this.axis.text(jobs.submit_s[job]));
      for (const [label, name] of [["first start", "start_s"], ["end", "finish_s"]]) if (jobs[name][job] !== null) row(label, `${this.axis.text(jobs[name][job])}, ${human(jobs[name][job] - jobs.submit_s[job])} after the submission`);
      if (jobs.queue_s[job] !== null) row("waited", human(jobs.queue_s[job]));
      if (jobs.run_s[job] !== null) row("held servers", human(jobs.run_s[job]));
      const told = (this.data.explanations || {})[job];
      if (!told) { row("reasons", `ray-sim explain RUN ${jobs.id[job]}`); return; }
      for (const [title, lines] of told) { add(this.details, "h3", title); for (const [label, text] of lines) row(label, text); }
    }
  }

  async function start() {
    const sections = new Map();
    for (const source of document.querySelectorAll("figure.chart > script")) {
      const figure = source.parentElement, charts = figure.parentElement;
      if (!sections.has(charts)) {
        const holder = document.createElement("div");
        holder.className = "tools legend"; charts.before(holder); sections.set(charts, { time: new Axis("time"), legend: new Legend(holder), jobs: new Map(), seeds: new Set() });
      }
      const section = sections.get(charts), note = figure.querySelector(".note"), copy = figure.cloneNode(true);
      try {
        const data = await unpack(source.textContent);
        new { gantt: Gantt, gantts: Gantt, lines: Lines, rows: Rows }[data.kind](figure, data, section);
        if (data.runs && data.runs.length > 1) { figure.after(copy); new Gantt(copy, data, section, 1); copy.querySelector(".note").remove(); }
      } catch (error) { add(figure, "p", `This chart cannot be drawn: ${error.message}. It needs a browser of 2023 or later.`, { class: "note" }); console.error(error); }
      if (note) figure.append(note);
    }
    for (const section of sections.values()) {
      const seeds = [...section.seeds].sort((a, b) => a - b); section.seed = seeds[0]; if (seeds.length < 2) continue;
      const choice = add(add(section.legend.holder, "label", "over time: "), "select", "", { "aria-label": "seed of the charts over time" });
      seeds.forEach((seed) => add(choice, "option", `seed ${seed}`));
      choice.onchange = () => { section.seed = seeds[choice.selectedIndex]; section.time.redraw(); };
    }
    for (const axis of axes) if (axis.charts.size) axis.start();
    dark.addEventListener("change", redraw);
  }
  start();
})();

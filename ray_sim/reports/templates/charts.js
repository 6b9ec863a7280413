"use strict";
(() => {
  // Colours that readers with any kind of colour vision tell apart (after Okabe and Ito), by light and dark page.
  const HUES = {
    light: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6b6b6b"],
    dark: ["#56b4e9", "#ff8a3d", "#2bc29a", "#e19ac4", "#8fb7ff", "#e6b422", "#b0b0b0"],
  };
  const DASHES = [[], [6, 3], [2, 2], [8, 2, 2, 2]];
  const ROLES = ["worker", "parameter server", "chunk"];
  const ENDINGS = ["finished", "suspended", "moved", "lost its server", "held at the end of the run"];
  const [SUSPENDED, LOST] = [1, 3];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const hues = () => (dark.matches && !matchMedia("print").matches ? HUES.dark : HUES.light);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const add = (parent, tag, text = "", attributes = {}) => {
    const made = document.createElement(tag);
    made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return parent.appendChild(made);
  };

  function human(seconds) {
    if (seconds < 0) return "-" + human(-seconds);
    if (seconds < 10) return `${+seconds.toPrecision(3)} s`;
    const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
    for (let i = 0; i < 3; i++) {
      const [[large, size], [small, part], [, finer]] = [units[i], units[i + 1], units[Math.min(i + 2, 3)]];
      if (Math.round(seconds / finer) * finer < size) continue;
      const parts = Math.round(seconds / part), whole = Math.floor(parts / (size / part)), rest = parts % (size / part);
      return rest ? `${whole.toLocaleString("en")} ${large} ${rest} ${small}` : `${whole.toLocaleString("en")} ${large}`;
    }
    return `${Math.round(seconds)} s`;
  }
  const amount = (value) => (value === null ? "-" : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : `${+value.toPrecision(4)}`);

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  /** Window of time in seconds that the charts of a section share. */
  class TimeWindow {
    constructor() { this.charts = []; this.min = Infinity; this.max = -Infinity; this.origin = 0; this.due = false; }
    join(chart, min, max) {
      this.charts.push(chart);
      this.min = this.low = Math.min(this.min, min);
      this.max = this.high = Math.max(this.max, max, this.min + 1e-3);
    }
    set(low, high) {
      const span = Math.min(Math.max(high - low, (this.max - this.min) * 1e-6), this.max - this.min);
      this.low = Math.max(this.min, Math.min(low, this.max - span));
      this.high = this.low + span;
      this.redraw();
    }
    zoom(factor, at = (this.low + this.high) / 2) { this.set(at - (at - this.low) * factor, at + (this.high - at) * factor); }
    pan(share) { const step = (this.high - this.low) * share; this.set(this.low + step, this.high + step); }
    /** Text of an instant: since second 0, or "+" since the first event where second 0 is long before, as with dates. */
    clock(at) { return this.origin ? `+${human(at - this.origin)}` : human(at); }
    /** Leave out the end, if a few jobs there outlive the others by far. */
    start() {
      this.origin = this.min > 10 * (this.max - this.min) ? this.min : 0;
      const span = (Math.max(...this.charts.flatMap((chart) => chart.focus ?? [])) - this.min) * 1.25;
      if (span > 0 && span < (this.max - this.min) / 2) this.set(this.min, this.min + span);
      else this.redraw();
    }
    redraw() {
      if (this.due) return;
      this.due = true;
      requestAnimationFrame(() => { this.due = false; for (const chart of this.charts) chart.draw(); });
    }
  }
  /** A canvas with a margin on the left, drags, pinches, wheel and keys; subclasses draw. */
  class Chart {
    constructor(figure, data, time) {
      this.data = data;
      this.time = time;
      this.focus = data.focus_s;
      this.tools = add(figure, "div", "", { class: "tools" });
      for (const [label, title, act] of [["+", "zoom in", () => this.time.zoom(0.5)], ["−", "zoom out", () => this.time.zoom(2)],
        ["‹", "earlier", () => this.time.pan(-0.5)], ["›", "later", () => this.time.pan(0.5)],
        ["all", "whole run", () => this.time.set(this.time.min, this.time.max)]]) {
        add(this.tools, "button", label, { type: "button", title, "aria-label": title }).onclick = act;
      }
      this.holder = add(figure, "div");
      this.canvas = add(this.holder, "canvas", "", { tabindex: "0", role: "img", "aria-label": figure.querySelector("figcaption").textContent });
      this.readout = add(figure, "p", "", { class: "readout" });
      this.listen();
      new ResizeObserver(() => this.time.redraw()).observe(this.holder);
    }
    listen() {
      const canvas = this.canvas, held = new Map();
      let moved = 0;
      const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
      canvas.onpointerdown = (event) => { canvas.setPointerCapture(event.pointerId); held.set(event.pointerId, place(event)); moved = 0; };
      canvas.onpointermove = (event) => {
        const now = place(event), before = held.get(event.pointerId);
        if (!before) { this.hover(...now); return; }
        const others = [...held].filter(([id]) => id !== event.pointerId);
        if (others.length) {
          const other = others[0][1][0], [from, to] = [Math.abs(before[0] - other), Math.abs(now[0] - other)];
          if (from > 5 && to > 5) this.time.zoom(from / to, this.timeAt(other));
        } else this.time.pan((before[0] - now[0]) / this.width);
        moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
        held.set(event.pointerId, now);
      };
      const release = (event) => {
        if (held.delete(event.pointerId) && event.type === "pointerup" && moved < 5) { this.hover(...place(event)); this.click(...place(event)); }
      };
      canvas.onpointerup = release;
      canvas.onpointercancel = release;
      canvas.ondblclick = (event) => this.time.zoom(0.4, this.timeAt(place(event)[0]));
      canvas.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;  // the page scrolls
        event.preventDefault();
        if (event.shiftKey) this.time.pan(Math.sign(event.deltaY + event.deltaX) * 0.1);
        else this.time.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.timeAt(place(event)[0]));
      }, { passive: false });
      canvas.onkeydown = (event) => {
        const act = { "+": () => this.time.zoom(0.5), "-": () => this.time.zoom(2), 0: () => this.time.set(this.time.min, this.time.max),
          ArrowLeft: () => this.time.pan(-0.1), ArrowRight: () => this.time.pan(0.1) }[event.key];
        if (act) { act(); event.preventDefault(); }
      };
    }
    click() {}
    timeAt(x) { return this.time.low + Math.min(Math.max((x - this.left) / this.width, 0), 1) * (this.time.high - this.time.low); }
    xOf(seconds) { return this.left + (seconds - this.time.low) / (this.time.high - this.time.low) * this.width; }
    /** Set the size in CSS pixels and return a context for them. */
    begin(width, height, left) {
      const ratio = window.devicePixelRatio || 1, canvas = this.canvas;
      if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
        canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
      }
      Object.assign(this, { ratio, left, width: Math.max(width - left - 8, 10), height });
      const context = canvas.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.fillStyle = css("--paper");
      context.fillRect(0, 0, width, height);
      context.font = "12px system-ui, sans-serif";
      return context;
    }
    ticks(context, y) {
      const steps = [1e-3, 0.01, 0.1, 1, 5, 15, 60, 300, 900, 3600, 10800, 21600, 43200, 86400, 172800, 432000, 864000, 2592000, 8640000, 31536000, 315360000];
      const most = Math.max(2, this.width / 95), step = steps.find((each) => (this.time.high - this.time.low) / each <= most) || steps.at(-1);
      context.fillStyle = css("--faint"); context.strokeStyle = css("--line"); context.lineWidth = 1; context.setLineDash([]);
      context.textBaseline = "top"; context.textAlign = "left";
      const origin = this.time.origin;
      for (let at = origin + Math.ceil((this.time.low - origin) / step) * step; at <= this.time.high; at += step) {
        const x = Math.round(this.xOf(at)) + 0.5, text = this.time.clock(at);
        context.beginPath(); context.moveTo(x, 0); context.lineTo(x, this.height); context.stroke();
        if (x + context.measureText(text).width + 3 < this.left + this.width + 8) context.fillText(text, x + 3, y);
      }
    }
  }

  const upper = (values, low, high, wanted) => {  // first index whose value is greater
    while (low < high) { const middle = (low + high) >> 1; if (values[middle] > wanted) high = middle; else low = middle + 1; }
    return low;
  };
  const sums = (counts) => { const total = new Int32Array(counts.length + 1); counts.forEach((n, i) => { total[i + 1] = total[i] + n; }); return total; };
  const cut = (context, text, width) => {
    if (context.measureText(text).width <= width) return text;
    let n = text.length;
    while (n > 1 && context.measureText(text.slice(0, n) + "…").width > width) n--;
    return text.slice(0, n) + "…";
  };

  /** Jobs on servers: a row per server, a lane per stay at a time, drawn pixel by pixel. */
  class Gantt extends Chart {
    constructor(figure, data, time) {
      super(figure, data, time);
      const n = data.job.length;
      this.begins = new Float64Array(n); this.ends = new Float64Array(n);
      let at = 0;
      for (let i = 0; i < n; i++) { at += data.begin[i]; this.begins[i] = data.origin_s + at / 1000; this.ends[i] = this.begins[i] + data.length[i] / 1000; }
      this.laneOf = sums(data.lanes); this.barOf = sums(data.bars);
      this.rowHeights = data.lanes.map((lanes) => Math.max(16, 4 * lanes) + 2);
      this.rowTops = sums(this.rowHeights);
      this.outagesOf = new Map();
      for (const [server, begin, end] of data.outages) this.outagesOf.set(server, [...(this.outagesOf.get(server) || []), [data.origin_s + begin / 1000, data.origin_s + end / 1000]]);
      this.chosen = -1;
      this.holder.className = "scroller";
      this.spacer = add(this.holder, "div");
      this.spacer.append(this.canvas);
      this.holder.onscroll = () => this.time.redraw();
      this.details = add(figure, "div", "", { class: "details", "aria-live": "polite" });
      const find = add(this.tools, "input", "", { type: "search", placeholder: "find a job", "aria-label": "find a job", size: "14" });
      find.onchange = () => this.find(find.value.trim());
      this.readout.textContent = "Click on a bar for its job. Zoom: buttons, Ctrl and wheel, pinch, double click; “all” shows the whole run.";
      this.time.join(this, data.origin_s, data.origin_s + data.end / 1000);
    }
    draw() {
      const began = performance.now(), full = this.holder.clientWidth, all = this.rowTops.at(-1), axis = 20;
      const height = Math.min(all + axis, Math.max(220, Math.min(560, innerHeight * 0.7)));
      this.holder.style.height = `${height + 2}px`;
      this.spacer.style.height = `${all + axis}px`;
      const context = this.begin(full, height, Math.min(130, full * 0.22)), scroll = this.holder.scrollTop;
      this.axis = axis;
      this.bars(context, scroll);
      context.save(); context.beginPath(); context.rect(0, 0, this.left, height); context.clip();
      context.textBaseline = "middle"; context.textAlign = "left"; context.fillStyle = css("--ink");
      const first = Math.max(upper(this.rowTops, 0, this.rowTops.length, scroll) - 1, 0);
      for (let row = first; row < this.data.servers.length && this.rowTops[row] - scroll < height; row++) {
        context.fillText(cut(context, this.data.servers[row], this.left - 8), 4, axis + this.rowTops[row] - scroll + this.rowHeights[row] / 2);
      }
      context.restore();
      context.fillStyle = css("--paper"); context.fillRect(0, 0, full, axis);
      this.height = axis; this.ticks(context, 3); this.height = height;
      this.canvas.dataset.drawMs = (performance.now() - began).toFixed(1);
    }
    /** Bars of the visible rows. Bars that share a pixel are drawn once: a lane costs at most its pixels. */
    bars(context, scroll) {
      const { ratio, data } = this, pixels = Math.floor(this.width * ratio), rows = Math.floor((this.height - this.axis) * ratio);
      const image = context.createImageData(pixels, rows), buffer = new Uint32Array(image.data.buffer);
      const colour = (text, alpha = 1) => { const v = parseInt(text.slice(1), 16), mix = (c, p) => Math.round(c * alpha + p * (1 - alpha));
        const paper = parseInt(css("--paper").slice(1), 16), at = (x, s) => (x >> s) & 255;
        return (255 << 24 | mix(at(v, 0), at(paper, 0)) << 16 | mix(at(v, 8), at(paper, 8)) << 8 | mix(at(v, 16), at(paper, 16))) >>> 0; };
      const paper = colour(css("--paper")), line = colour(css("--line")), ink = colour(css("--ink"));
      const strong = hues().map((hue) => colour(hue)), pale = hues().map((hue) => colour(hue, 0.55)), faint = hues().map((hue) => colour(hue, 0.2));
      const fill = (x0, x1, y0, y1, value) => { for (let y = Math.max(y0, 0); y < Math.min(y1, rows); y++) buffer.fill(value, y * pixels + x0, y * pixels + x1); };
      buffer.fill(paper);
      const scale = pixels / (this.time.high - this.time.low), xAt = (seconds) => Math.min(Math.max(Math.round((seconds - this.time.low) * scale), 0), pixels);
      const first = Math.max(upper(this.rowTops, 0, this.rowTops.length, scroll) - 1, 0);
      for (let row = first; row < data.servers.length && this.rowTops[row] - scroll < this.height; row++) {
        const top = (this.rowTops[row] - scroll) * ratio, bottom = top + this.rowHeights[row] * ratio;
        fill(0, pixels, Math.round(bottom) - 1, Math.round(bottom), line);
        for (const [begin, end] of this.outagesOf.get(row) || []) {
          const x0 = xAt(begin), x1 = Math.max(xAt(end), x0 + 1);
          for (let y = Math.max(Math.round(top), 0); y < Math.min(Math.round(bottom) - 1, rows); y++) for (let x = x0; x < Math.min(x1, pixels); x++) if ((x + y) % 6 < 2) buffer[y * pixels + x] = ink;
        }
        const lanes = data.lanes[row], high = (bottom - top - 2 * ratio) / lanes;
        for (let lane = 0; lane < lanes; lane++) {
          const index = this.laneOf[row] + lane, last = this.barOf[index + 1], y0 = Math.round(top + lane * high), y1 = Math.max(Math.round(top + (lane + 1) * high) - (high > 4 ? 1 : 0), y0 + 1);
          if (y1 <= 0 || y0 >= rows) continue;
          let bar = upper(this.ends, this.barOf[index], last, this.time.low);
          while (bar < last && this.begins[bar] < this.time.high) {
            const x0 = xAt(this.begins[bar]), x1 = Math.min(Math.max(xAt(this.ends[bar]), x0 + 1), pixels), job = data.job[bar];
            const tones = this.chosen < 0 || this.chosen === job ? (data.role[bar] === 1 ? pale : strong) : faint;
            fill(x0, x1, y0, y1, tones[(job * 31 + (job >> 3)) % tones.length]);
            if (x1 - x0 > 3 * ratio) {
              if (data.ending[bar] === SUSPENDED) fill(x1 - Math.ceil(2 * ratio), x1, y0, y1, ink);
              else if (data.ending[bar] === LOST) { for (let y = y0; y < y1; y++) { const x = x1 - 1 - (y - y0) % Math.ceil(4 * ratio); if (y >= 0 && y < rows && x >= x0) buffer[y * pixels + x] = ink; } }
              else fill(x1 - 1, x1, y0, y1, paper);
            }
            const beyond = this.time.low + x1 / scale;  // skip what ends within the pixels that are drawn
            bar = this.ends[bar + 1] > beyond || bar + 1 >= last ? bar + 1 : Math.max(upper(this.ends, bar + 1, last, beyond), bar + 1);
          }
        }
      }
      context.putImageData(image, Math.round(this.left * ratio), Math.round(this.axis * ratio));
    }
    barAt(x, y) {
      const down = y - this.axis + this.holder.scrollTop, row = upper(this.rowTops, 0, this.rowTops.length, down) - 1;
      if (x < this.left || y < this.axis || row < 0 || row >= this.data.servers.length) return [row, -1];
      const lane = Math.min(Math.floor((down - this.rowTops[row]) / (this.rowHeights[row] - 2) * this.data.lanes[row]), this.data.lanes[row] - 1);
      const index = this.laneOf[row] + lane, at = this.timeAt(x), slack = (this.time.high - this.time.low) / this.width * 2;
      const bar = upper(this.ends, this.barOf[index], this.barOf[index + 1], at - slack);
      return [row, bar < this.barOf[index + 1] && this.begins[bar] <= at + slack ? bar : -1];
    }
    hover(x, y) {
      const [row, bar] = this.barAt(x, y), at = this.timeAt(x);
      if (row < 0 || row >= this.data.servers.length) return;
      const parts = [this.data.servers[row], this.time.clock(at)];
      if (bar >= 0) {
        const held = this.data.role[bar] === 2 ? "chunk" : `${this.data.tasks[bar]} × ${ROLES[this.data.role[bar]]}`;
        parts.push(`job ${this.data.jobs.id[this.data.job[bar]]}`, held, `${this.time.clock(this.begins[bar])} to ${this.time.clock(this.ends[bar])}`, ENDINGS[this.data.ending[bar]]);
      } else if ((this.outagesOf.get(row) || []).some(([begin, end]) => begin <= at && at < end)) parts.push("unavailable");
      this.readout.textContent = parts.join(" · ");
    }
    click(x, y) { const [, bar] = this.barAt(x, y); this.choose(bar < 0 ? -1 : this.data.job[bar]); }
    find(name) {
      const ids = this.data.jobs.id, exact = ids.indexOf(name), job = exact >= 0 || !name ? exact : ids.findIndex((id) => id.startsWith(name));
      this.choose(job);
      const bar = job < 0 ? -1 : this.data.job.indexOf(job);
      if (name && job < 0) this.readout.textContent = `no job ${name}`;
      if (bar < 0) return;
      const row = this.laneOf.findLastIndex((lane) => lane <= this.barOf.findLastIndex((first) => first <= bar));
      this.holder.scrollTop = this.rowTops[row] - 40;
      const margin = Math.max(this.ends[bar] - this.begins[bar], (this.time.max - this.time.min) / 200);
      this.time.set(this.begins[bar] - margin, this.ends[bar] + margin);
    }
    choose(job) {
      this.chosen = job;
      this.details.replaceChildren();
      this.time.redraw();
      if (job < 0) return;
      const jobs = this.data.jobs, row = (label, text) => add(this.details, "p", `${label}: ${text}`);
      add(this.details, "h3", `Job ${jobs.id[job]}`);
      row("status", jobs.status[job]);
      row("GPUs", amount(jobs.num_gpus[job]));
      row("submitted", this.time.clock(jobs.submit_s[job]));
      for (const [label, name] of [["first start", "start_s"], ["end", "finish_s"]]) if (jobs[name][job] !== null) row(label, `${this.time.clock(jobs[name][job])}, ${human(jobs[name][job] - jobs.submit_s[job])} after the submission`);
      if (jobs.queue_s[job] !== null) row("waited", human(jobs.queue_s[job]));
      if (jobs.run_s[job] !== null) row("held servers", human(jobs.run_s[job]));
      const told = (this.data.explanations || {})[job];
      if (!told) { row("reasons", `ray-sim explain RUN ${jobs.id[job]}`); return; }
      for (const [title, lines] of told) { add(this.details, "h3", title); for (const [label, text] of lines) row(label, text); }
    }
  }

  /** Step lines over the shared time; each can be switched off. */
  class Lines extends Chart {
    constructor(figure, data, time) {
      super(figure, data, time);
      this.on = data.series.map(() => true);
      if (data.series.length > 1) data.series.forEach((series, index) => this.key(series, index));
      this.readout.textContent = data.unit;
      const ends = data.series.flatMap((series) => (series.x.length ? [series.x[0], series.x.at(-1)] : []));
      this.time.join(this, Math.min(...ends), Math.max(...ends));
    }
    key(series, index) {
      const button = add(this.tools, "button", "", { type: "button", "aria-pressed": String(this.on[index]) });
      const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg"), line = document.createElementNS("http://www.w3.org/2000/svg", "line");
      picture.setAttribute("viewBox", "0 0 26 8");
      for (const [name, value] of Object.entries({ x1: 0, x2: 26, y1: 4, y2: 4, "stroke-width": 3, "stroke-dasharray": this.dash(index).join(" ") })) line.setAttribute(name, value);
      this.paint = this.paint || [];
      this.paint.push(() => line.setAttribute("stroke", hues()[index % hues().length]));
      picture.append(line); button.append(picture, document.createTextNode(series.name));
      button.onclick = () => { this.on[index] = !this.on[index]; button.setAttribute("aria-pressed", String(this.on[index])); this.time.redraw(); };
    }
    dash(index) { return DASHES[Math.floor(index / 7) % DASHES.length]; }
    draw() {
      const began = performance.now(), full = this.holder.clientWidth, bottom = 22, context = this.begin(full, 230, Math.min(56, full * 0.16));
      const plot = this.height - bottom - 8, lines = this.data.series.filter((_, index) => this.on[index]);
      let top = 0;
      for (const { x, y } of lines) {
        for (let i = Math.max(upper(x, 0, x.length, this.time.low) - 1, 0); i < x.length && x[i] <= this.time.high; i++) if (y[i] > top) top = y[i];
      }
      top = top || 1;
      this.ticks(context, this.height - bottom + 4);
      const yOf = (value) => 8 + plot * (1 - value / top), rough = top / 4, unit = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 2.5, 5, 10].map((each) => each * unit).find((each) => each >= rough);
      context.textAlign = "right"; context.textBaseline = "middle";
      for (let value = 0; value <= top * 1.001; value += step) {
        const y = Math.round(yOf(value)) + 0.5;
        context.strokeStyle = css("--line"); context.beginPath(); context.moveTo(this.left, y); context.lineTo(this.left + this.width, y); context.stroke();
        context.fillStyle = css("--faint"); context.fillText(amount(value), this.left - 5, y);
      }
      context.save(); context.beginPath(); context.rect(this.left, 0, this.width, this.height - bottom + 2); context.clip();
      context.lineWidth = 1.5;
      this.data.series.forEach(({ x, y }, index) => {
        if (!this.on[index] || !x.length) return;
        context.strokeStyle = hues()[index % hues().length]; context.setLineDash(this.dash(index)); context.beginPath();
        const first = Math.max(upper(x, 0, x.length, this.time.low) - 1, 0);
        let open = false;
        for (let i = first; i < x.length && x[i] <= this.time.high; i++) {
          if (y[i] === null) { open = false; continue; }
          const [at, height, next] = [this.xOf(x[i]), yOf(y[i]), this.xOf(i + 1 < x.length ? x[i + 1] : x[i])];
          if (open) context.lineTo(at, height); else context.moveTo(at, height);
          context.lineTo(next, height); open = true;
        }
        context.stroke();
      });
      context.restore(); context.setLineDash([]);
      (this.paint || []).forEach((each) => each());
      if (this.at !== undefined) { const x = this.xOf(this.at); context.strokeStyle = css("--faint"); context.beginPath(); context.moveTo(x, 8); context.lineTo(x, 8 + plot); context.stroke(); }
      this.canvas.dataset.drawMs = (performance.now() - began).toFixed(1);
    }
    hover(x) {
      if (x < this.left) return;
      this.at = this.timeAt(x);
      const values = this.data.series.flatMap((series, index) => {
        const i = upper(series.x, 0, series.x.length, this.at) - 1;
        return this.on[index] && i >= 0 ? [`${series.name} ${amount(series.y[i])}`] : [];
      });
      this.readout.textContent = [this.time.clock(this.at), ...values].join(" · ");
      this.time.redraw();
    }
  }

  async function start() {
    const windows = new Map();
    for (const source of document.querySelectorAll("figure.chart > script")) {
      const figure = source.parentElement;
      try {
        const data = await unpack(source.textContent);
        if (!windows.has(figure.parentElement)) windows.set(figure.parentElement, new TimeWindow());
        new { gantt: Gantt, lines: Lines }[data.kind](figure, data, windows.get(figure.parentElement));
      } catch (error) {
        add(figure, "p", `This chart cannot be drawn: ${error.message}. It needs a browser of 2023 or later.`, { class: "note" });
        console.error(error);
      }
      const note = figure.querySelector(".note");
      if (note) figure.append(note);
    }
    for (const time of windows.values()) time.start();
    dark.addEventListener("change", () => { for (const time of windows.values()) time.redraw(); });
  }
  start();
})();

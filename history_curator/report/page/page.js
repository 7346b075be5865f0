"use strict";
(() => {
  const started = performance.now();
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("report").textContent);
  const rows = data.decisions;
  const ACTIONS = ["kept", "truncated", "cleared", "dropped", "summarised", "merged", "moved",
    "repaired", "inserted"];
  const known = new Set(ACTIONS);
  const tone = (action) => "a-" + (known.has(action) ? action : "other");
  const num = (n) => n == null ? "–" : Number(n).toLocaleString("en-US");

  /* Message text reaches the page through textContent only. */
  const make = (tag, cls, text) => {
    const node = document.createElement(tag);
    if (cls) node.className = cls;
    if (text != null) node.textContent = text;
    return node;
  };
  const percent = (part, whole) => (whole > 0 ? 100 * part / whole : 0).toFixed(3) + "%";
  const textBefore = (d) => d.before ?? "";
  const textAfter = (d) => d.same ? d.before : d.after;
  const callLine = (d) => (d.tool_calls || []).map((c) => {
    const args = String(c.arguments ?? "");
    return c.name + "(" + args.slice(0, 120) + ")";
  }).join("  ");

  /* Budget bar. */
  const budget = () => {
    const bar = $("budget-bar");
    const legend = $("budget-legend");
    const spent = new Map();
    for (const d of rows) {
      if (d.tokens_after) spent.set(d.action, (spent.get(d.action) || 0) + d.tokens_after);
    }
    const used = data.tokens || 0;
    const whole = Math.max(data.max_tokens || 0, used, 1);
    const item = (cls, text, tick) => {
      const li = make("li", cls);
      li.append(make("i", tick ? "tick" : ""), text);
      legend.append(li);
    };
    const segment = (cls, tokens, label) => {
      if (!tokens) return;
      const span = make("span", cls);
      span.style.width = percent(tokens, whole);
      span.title = label + ": " + num(tokens) + " tokens";
      bar.append(span);
      item(cls, label + " " + num(tokens));
    };
    for (const action of [...ACTIONS, ...[...spent.keys()].filter((a) => !known.has(a))]) {
      segment(tone(action), spent.get(action), action);
    }
    segment("a-overhead", data.overhead, "tools, reserve, priming");
    if (data.max_tokens) item("a-free", "free " + num(Math.max(0, data.max_tokens - used)));
    if (data.prefix_tokens) {
      const line = make("span", "stable a-stable");
      line.style.left = percent(data.prefix_tokens, whole);
      bar.append(line);
      item("a-stable", "stable prefix " + num(data.prefix_tokens), true);
    }
  };

  /* Timeline. */
  const list = $("timeline");
  const items = new Array(rows.length);
  const biggest = rows.reduce((m, d) => Math.max(m, d.tokens_before || 0, d.tokens_after || 0), 1);
  const scale = (tokens) => percent(Math.sqrt(tokens || 0), Math.sqrt(biggest));
  let active = 0;

  const rowFor = (d, i) => {
    const li = make("li", tone(d.action) + " " + (known.has(d.action) ? d.action : "other"));
    const button = make("button", "row");
    button.type = "button";
    button.id = "row-" + i;
    button.tabIndex = i === 0 ? 0 : -1;
    button.setAttribute("aria-expanded", "false");
    const who = make("span", "who");
    who.append(make("b", "", d.origin ? d.role + " (" + d.origin + ")" : d.role));
    if (d.name) who.append(make("small", "", d.name));
    const text = (textBefore(d) || textAfter(d) || "").slice(0, 400).replace(/\s+/g, " ").trim();
    const calls = callLine(d);
    const say = make("span", text ? "say" : "say calls",
      text ? text.slice(0, 220) : (calls || "(no text)").slice(0, 220));
    const tok = make("span", "tok");
    if (d.action === "kept" || d.tokens_before === d.tokens_after) {
      tok.append(make("b", "", num(d.tokens_after)));
    } else {
      tok.append(make("s", "", num(d.tokens_before) + " → "),
        make("b", "", num(d.tokens_after ?? 0)));
    }
    const meter = make("span", "meter");
    meter.style.setProperty("--was", scale(d.tokens_before));
    meter.style.setProperty("--now", scale(d.tokens_after));
    tok.append(meter);
    button.append(make("span", "n", d.index == null ? "+" : String(d.index)), who, say,
      make("span", "badge", d.action), tok);
    li.append(button);
    return li;
  };

  const pane = (title, text, marked) => {
    const box = make("section", "pane");
    box.append(make("h3", "", title));
    const pre = make("pre");
    pre.tabIndex = 0;
    if (!text) pre.append(make("span", "none", "(no text)"));
    else if (marked && marked[1] > marked[0]) {
      pre.append(text.slice(0, marked[0]), make("mark", "", text.slice(...marked)),
        text.slice(marked[1]));
    } else pre.textContent = text;
    box.append(pre);
    return box;
  };

  /* The part of the original that the view no longer shows. */
  const removed = (before, after) => {
    const room = Math.min(before.length, after.length);
    let head = 0;
    while (head < room && before[head] === after[head]) head++;
    let tail = 0;
    while (tail < room - head &&
      before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++;
    return head + tail ? [head, before.length - tail] : null;
  };

  const pretty = (text) => {
    try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return String(text); }
  };

  const detailFor = (d, i) => {
    const box = make("div", "detail");
    box.id = "detail-" + i;
    box.setAttribute("role", "region");
    box.setAttribute("aria-labelledby", "row-" + i);
    const why = make("p", "why");
    why.append(make("strong", "", d.action), d.reason ? ": " + d.reason : "");
    const facts = [];
    if (d.manager) facts.push("by " + d.manager);
    if (d.position != null) facts.push("view position " + d.position);
    if (d.handle) facts.push("recall handle " + d.handle);
    if (facts.length) why.append(" ", make("em", "", "· " + facts.join(" · ")));
    box.append(why);
    const panes = make("div", "panes");
    const before = textBefore(d);
    const after = textAfter(d);
    if (d.index != null) {
      const differs = !d.same && after != null;
      panes.append(pane("Original · " + num(d.tokens_before) + " tokens", before,
        differs ? removed(before, after) : null));
    }
    if (!d.same && after != null) {
      panes.append(pane("In the view · " + num(d.tokens_after) + " tokens", after));
    }
    for (const call of d.tool_calls || []) {
      panes.append(pane("Calls " + call.name + (call.id ? " · " + call.id : ""),
        pretty(call.arguments)));
    }
    box.append(panes);
    return box;
  };

  const toggle = (i, open) => {
    const button = items[i].firstElementChild;
    const isOpen = button.getAttribute("aria-expanded") === "true";
    const next = open ?? !isOpen;
    if (next === isOpen) return;
    button.setAttribute("aria-expanded", String(next));
    if (next) {
      items[i].append(detailFor(rows[i], i));
      button.setAttribute("aria-controls", "detail-" + i);
    } else {
      $("detail-" + i).remove();
      button.removeAttribute("aria-controls");
    }
  };

  const draw = () => {
    const page = document.createDocumentFragment();
    let lastStable = -1;
    if (data.prefix_entries > 0) {
      rows.forEach((d, i) => {
        if (d.position != null && d.position < data.prefix_entries) lastStable = i;
      });
    }
    rows.forEach((d, i) => {
      page.append(items[i] = rowFor(d, i));
      if (i === lastStable) {
        const mark = make("li", "prefix");
        mark.id = "prefix-end";
        const label = make("span", "", "stable prefix ends here ");
        label.append(make("small", "", num(data.prefix_entries) + " messages, " +
          num(data.prefix_tokens) + " tokens the next call repeats unless the cut moves"));
        mark.append(label);
        page.append(mark);
      }
    });
    list.append(page);
  };

  /* Overview: at most 320 columns, each one message or a run of them. */
  const overview = () => {
    const box = $("overview");
    const step = Math.max(1, Math.ceil(rows.length / 320));
    const columns = [];
    for (let at = 0; at < rows.length; at += step) {
      const run = rows.slice(at, at + step);
      const was = run.reduce((s, d) => s + (d.tokens_before || d.tokens_after || 0), 0);
      const now = run.reduce((s, d) => s + (d.tokens_after || 0), 0);
      const worst = run.reduce((w, d) =>
        (d.tokens_before || 0) > (w.tokens_before || 0) ? d : w, run[0]);
      columns.push([at, was, now, worst.action]);
    }
    const top = Math.sqrt(columns.reduce((m, c) => Math.max(m, c[1], c[2]), 1));
    for (const [at, was, now, action] of columns) {
      const bar = make("b", tone(action));
      bar.dataset.at = at;
      bar.style.setProperty("--was", percent(Math.sqrt(was), top));
      bar.style.setProperty("--now", percent(Math.sqrt(now), top));
      box.append(bar);
    }
    box.addEventListener("click", (event) => {
      const bar = event.target.closest("b");
      if (bar) focusRow(Number(bar.dataset.at));
    });
  };

  /* Moving. */
  const focusRow = (i) => {
    if (i < 0 || i >= items.length) return;
    items[active].firstElementChild.tabIndex = -1;
    active = i;
    const button = items[i].firstElementChild;
    button.tabIndex = 0;
    button.focus({ preventScroll: true });
    button.scrollIntoView({ block: "nearest" });
  };
  const step = (by) => {
    let i = active + by;
    while (i >= 0 && i < items.length && items[i].hidden) i += by;
    focusRow(i);
  };
  const edge = (last) => {
    const order = [...items.keys()];
    if (last) order.reverse();
    focusRow(order.find((i) => !items[i].hidden) ?? 0);
  };
  const onRow = () => document.activeElement && document.activeElement.classList.contains("row");

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.tagName === "INPUT";
    if (event.key === "Escape") {
      if (typing) { search.value = ""; apply(); focusRow(active); } else if (items[active]) {
        toggle(active, false);
        focusRow(active);
      }
      return;
    }
    if (typing) {
      if (event.key === "Enter" || event.key === "ArrowDown") { event.preventDefault(); edge(false); }
      return;
    }
    const inText = event.target.tagName === "PRE";
    const arrows = !inText && (onRow() || event.target === document.body);
    const go = {
      j: () => step(1), k: () => step(-1), g: () => edge(false), G: () => edge(true),
      "/": () => search.focus(),
      ...(arrows ? { ArrowDown: () => step(1), ArrowUp: () => step(-1),
        Home: () => edge(false), End: () => edge(true),
        ArrowRight: () => toggle(active, true), ArrowLeft: () => toggle(active, false) } : {}),
    }[event.key];
    if (go && items.length) { event.preventDefault(); go(); }
  });
  list.addEventListener("click", (event) => {
    const button = event.target.closest(".row");
    if (!button) return;
    const i = Number(button.id.slice(4));
    focusRow(i);
    toggle(i);
  });

  /* Filters and search. */
  const search = $("search");
  const hidden = new Set();
  const haystacks = new Array(rows.length);
  const haystack = (i) => haystacks[i] ??= [rows[i].before, rows[i].after, rows[i].reason,
    rows[i].name, rows[i].manager, rows[i].role, rows[i].handle,
    ...(rows[i].tool_calls || []).flatMap((c) => [c.name, c.arguments, c.id])]
    .filter(Boolean).join("\n").toLowerCase();
  const apply = () => {
    const wanted = search.value.trim().toLowerCase();
    let shown = 0;
    rows.forEach((d, i) => {
      const keep = !hidden.has(d.action) && (!wanted || haystack(i).includes(wanted));
      items[i].hidden = !keep;
      if (keep) shown++;
    });
    $("shown").textContent = shown === rows.length ? num(shown) + " messages"
      : num(shown) + " of " + num(rows.length);
    $("nothing").hidden = shown > 0;
    if (items[active] && items[active].hidden) {
      const first = items.findIndex((li) => !li.hidden);
      if (first >= 0) {
        items[active].firstElementChild.tabIndex = -1;
        active = first;
        items[first].firstElementChild.tabIndex = 0;
      }
    }
  };
  const filters = () => {
    const counts = new Map();
    for (const d of rows) counts.set(d.action, (counts.get(d.action) || 0) + 1);
    const order = [...ACTIONS.filter((a) => counts.has(a)),
      ...[...counts.keys()].filter((a) => !known.has(a))];
    for (const action of order) {
      const chip = make("button", "chip " + tone(action), action);
      chip.type = "button";
      chip.dataset.action = action;
      chip.setAttribute("aria-pressed", "true");
      chip.append(make("span", "", num(counts.get(action))));
      chip.addEventListener("click", () => {
        const on = chip.getAttribute("aria-pressed") === "true";
        chip.setAttribute("aria-pressed", String(!on));
        if (on) hidden.add(action); else hidden.delete(action);
        apply();
      });
      $("filters").append(chip);
    }
  };
  search.addEventListener("input", apply);
  $("reset").addEventListener("click", () => {
    search.value = "";
    hidden.clear();
    for (const chip of $("filters").children) chip.setAttribute("aria-pressed", "true");
    apply();
  });

  /* Theme: automatic, light, dark. */
  const themes = ["auto", "light", "dark"];
  let theme = 0;
  $("theme").addEventListener("click", () => {
    theme = (theme + 1) % themes.length;
    document.documentElement.dataset.theme = themes[theme];
    $("theme-name").textContent = themes[theme][0].toUpperCase() + themes[theme].slice(1);
    $("theme").setAttribute("aria-label", "Colour theme: " + themes[theme]);
  });

  budget();
  draw();
  overview();
  filters();
  apply();
  document.documentElement.dataset.ready = (performance.now() - started).toFixed(1);
})();

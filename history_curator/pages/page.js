"use strict";
/* The timeline: rows are made when they come near the screen, and texts when a row is opened.
   Message text reaches the page through textContent only. */
const $ = (id) => document.getElementById(id);
const ACTIONS = ["kept", "truncated", "cleared", "dropped", "summarised", "merged", "moved",
  "repaired", "inserted", "entered", "left", "rewritten", "same"];
const known = new Set(ACTIONS);
const MEANINGS = { kept: "sent as recorded", truncated: "shortened", cleared: "a note in its place",
  dropped: "not sent", summarised: "a summary in its place", merged: "joined with its neighbour",
  moved: "sent at another place", repaired: "changed for the provider's rules",
  inserted: "not recorded, added for the model", entered: "was not in the earlier view",
  left: "was in the earlier view only", rewritten: "another text than in the earlier view",
  same: "as in the earlier view" };
const isPhone = () => matchMedia("(max-width: 44rem)").matches;
const tone = (action) => "a-" + (known.has(action) ? action : "other");
const num = (n) => n == null ? "–" : Number(n).toLocaleString("en-US");
const percent = (part, whole) => (whole > 0 ? 100 * part / whole : 0).toFixed(3) + "%";
const make = (tag, cls, text) => {
  const node = document.createElement(tag);
  if (cls) node.className = cls;
  if (text != null) node.textContent = text;
  return node;
};
const callLine = (d) => (d.tool_calls || []).map((c) =>
  c.name + "(" + String(c.arguments ?? "").slice(0, 120) + ")").join("  ");
const textAfter = (d) => d.same ? d.before : d.after;
const pretty = (text) => {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return String(text); }
};

const Timeline = () => {
  const list = $("timeline");
  const scroller = $("scroller");
  const search = $("search");
  const BLOCK = 40;
  let rows = [];
  let shown = [];          /* row numbers on the list, and marks as strings */
  let marks = new Map();   /* row number -> [{id, label, note}] to be put after it */
  let active = 0;
  let biggest = 1;
  let blocks = [];
  let other = "";          /* the name of a second policy, when there is one */
  const open = new Set();
  const hidden = new Set(["same"]);   /* between two calls, what changed */
  const haystacks = new Map();

  const tokens = (d) => {
    const tok = make("span", "tok");
    if (d.tokens_before === d.tokens_after || d.tokens_before == null || d.action === "kept") {
      tok.append(make("b", "", num(d.tokens_after)));
    } else {
      tok.append(make("s", "", num(d.tokens_before) + " → "),
        make("b", "", num(d.tokens_after ?? 0)));
    }
    const scale = (n) => percent(Math.sqrt(n || 0), Math.sqrt(biggest));
    const meter = make("span", "meter");
    meter.style.setProperty("--was", scale(d.tokens_before));
    meter.style.setProperty("--now", scale(d.tokens_after));
    tok.append(meter);
    return tok;
  };

  const rowFor = (i, place) => {
    const d = rows[i];
    const item = make("div", "item " + tone(d.action) + " " +
      (known.has(d.action) ? d.action : "other"));
    item.setAttribute("role", "listitem");
    item.setAttribute("aria-setsize", String(shown.length));
    item.setAttribute("aria-posinset", String(place + 1));
    const button = make("button", "row");
    button.type = "button";
    button.id = "row-" + i;
    button.tabIndex = i === active ? 0 : -1;
    button.setAttribute("aria-expanded", String(open.has(i)));
    const who = make("span", "who");
    const origin = d.origin === d.role ? "added" : d.origin;
    who.append(make("b", "", origin ? d.role + " (" + origin + ")" : d.role));
    if (d.name) who.append(make("small", "", d.name));
    const text = (d.before || textAfter(d) || "").slice(0, 400).replace(/\s+/g, " ").trim();
    const say = make("span", text ? "say" : "say calls",
      (text || callLine(d) || "(no text)").slice(0, 220));
    const badges = make("span", "badges");
    badges.append(make("span", "badge", d.action));
    if (d.needed) badges.append(make("span", "badge needed", d.needed));
    if (d.other) {
      const second = make("span", "badge " + tone(d.other.action), d.other.action);
      second.title = other;
      badges.append(second);
    }
    button.append(make("span", "n", d.message == null ? "+" : String(d.message)), who, say, badges,
      tokens(d));
    item.append(button);
    if (open.has(i)) { item.append(detailFor(d, i)); button.setAttribute("aria-controls", "detail-" + i); }
    return item;
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

  const detailFor = (d, i) => {
    const box = make("div", "detail");
    box.id = "detail-" + i;
    box.setAttribute("role", "region");
    box.setAttribute("aria-labelledby", "row-" + i);
    const why = make("p", "why");
    why.append(make("strong", "", d.action), d.reason ? ": " + d.reason : "");
    const facts = [];
    if (d.manager) facts.push("decided by " + d.manager);
    if (d.position != null) facts.push("view position " + d.position);
    if (d.handle) facts.push("recall handle " + d.handle);
    if (d.needed) facts.push(d.needed);
    if (d.other) facts.push(other + ": " + d.other.action);
    if (facts.length) why.append(" ", make("em", "", "· " + facts.join(" · ")));
    box.append(why);
    const panes = make("div", "panes");
    const before = d.before ?? "";
    const after = textAfter(d);
    if (d.index != null) {
      panes.append(pane("Original · " + num(d.tokens_before) + " tokens", before,
        !d.same && after != null ? removed(before, after) : null));
    }
    if (!d.same && after != null) {
      panes.append(pane("In the view · " + num(d.tokens_after) + " tokens", after));
    }
    if (d.was != null) panes.append(pane("In the earlier view", d.was));
    if (d.other && d.other.after != null) {
      panes.append(pane("In the view of " + other + " · " + num(d.other.tokens_after) + " tokens",
        d.other.after));
    }
    for (const call of d.tool_calls || []) {
      panes.append(pane("Calls " + call.name + (call.id ? " · " + call.id : ""),
        pretty(call.arguments)));
    }
    box.append(panes);
    return box;
  };

  const markFor = (mark) => {
    const node = make("div", "prefix " + mark.kind);
    node.id = mark.id;
    node.setAttribute("role", "listitem");
    const label = make("span", "", mark.label + " ");
    if (mark.note) label.append(make("small", "", mark.note));
    node.append(label);
    return node;
  };

  /* Blocks of rows, filled while they are near the screen. */
  const fill = (block) => {
    if (block.filled) return;
    const page = document.createDocumentFragment();
    for (let place = block.from; place < block.to; place++) {
      const i = shown[place];
      page.append(rowFor(i, place));
      for (const mark of marks.get(i) || []) page.append(markFor(mark));
    }
    block.node.replaceChildren(page);
    block.node.style.height = "";
    block.filled = true;
  };
  const empty = (block) => {
    if (!block.filled) return;
    for (let place = block.from; place < block.to; place++) if (open.has(shown[place])) return;
    if (block.node.contains(document.activeElement)) return;
    block.node.style.height = block.node.offsetHeight + "px";
    block.node.replaceChildren();
    block.filled = false;
  };
  let watcher = null;
  const draw = () => {
    if (watcher) watcher.disconnect();
    const own = getComputedStyle(scroller).overflowY === "auto";
    watcher = new IntersectionObserver((seen) => {
      for (const each of seen) {
        const block = blocks[Number(each.target.dataset.block)];
        if (each.isIntersecting) fill(block); else empty(block);
      }
    }, { root: own ? scroller : null, rootMargin: "1200px 0px" });
    const high = isPhone() ? 54 : 39;
    blocks = [];
    const page = document.createDocumentFragment();
    for (let from = 0; from < shown.length; from += BLOCK) {
      const node = make("div", "block");
      const to = Math.min(from + BLOCK, shown.length);
      node.dataset.block = blocks.length;
      node.style.height = (to - from) * high + "px";
      blocks.push({ node, from, to, filled: false });
      page.append(node);
    }
    list.replaceChildren(page);
    if (blocks.length) {
      fill(blocks[0]);
      const real = blocks[0].node.offsetHeight / (blocks[0].to - blocks[0].from);
      for (const block of blocks.slice(1)) block.node.style.height = (block.to - block.from) * real + "px";
    }
    for (const block of blocks) watcher.observe(block.node);
  };
  const placeOf = (i) => shown.indexOf(i);
  const reveal = (i) => {
    const place = placeOf(i);
    if (place >= 0) fill(blocks[Math.floor(place / BLOCK)]);
    return place >= 0;
  };

  /* The heights of blocks that were never filled are guesses: scroll, let them fill, look again. */
  const settle = (node, block, again = 2) => {
    node.scrollIntoView({ block });
    if (again) requestAnimationFrame(() => setTimeout(() => {
      if (node.isConnected) settle(node, block, again - 1);
    }));
  };

  const toggle = (i, want) => {
    const isOpen = open.has(i);
    const next = want ?? !isOpen;
    if (next === isOpen || !reveal(i)) return;
    const button = $("row-" + i);
    button.setAttribute("aria-expanded", String(next));
    if (next) {
      open.add(i);
      button.parentElement.append(detailFor(rows[i], i));
      button.setAttribute("aria-controls", "detail-" + i);
    } else {
      open.delete(i);
      $("detail-" + i).remove();
      button.removeAttribute("aria-controls");
    }
  };
  const focusRow = (i, block = "nearest") => {
    if (!reveal(i)) return;
    const old = $("row-" + active);
    if (old) old.tabIndex = -1;
    active = i;
    const button = $("row-" + i);
    button.tabIndex = 0;
    button.focus({ preventScroll: true });
    settle(button, block);
  };
  const step = (by) => {
    const place = placeOf(active) + by;
    if (place >= 0 && place < shown.length) focusRow(shown[place]);
  };
  const edge = (last) => shown.length && focusRow(shown[last ? shown.length - 1 : 0]);

  const goTo = (id) => {
    for (const [i, some] of marks) {
      if (!some.some((mark) => mark.id === id) || !reveal(i)) continue;
      settle($(id), "center");
      return true;
    }
    return false;
  };
  const compactions = () => {
    const box = $("compactions");
    const buttons = [["Oldest", () => edge(false)]];
    for (const some of marks.values()) {
      for (const mark of some) buttons.push([mark.short, () => goTo(mark.id)]);
    }
    buttons.push(["Newest", () => edge(true)]);
    box.replaceChildren(...buttons.map(([label, act]) => {
      const button = make("button", "ghost", label);
      button.type = "button";
      button.addEventListener("click", act);
      return button;
    }));
  };

  const haystack = (i) => {
    if (!haystacks.has(i)) {
      const d = rows[i];
      haystacks.set(i, [d.before, d.after, d.reason, d.name, d.manager, d.role, d.handle,
        ...(d.tool_calls || []).flatMap((c) => [c.name, c.arguments, c.id])]
        .filter(Boolean).join("\n").toLowerCase());
    }
    return haystacks.get(i);
  };
  const apply = () => {
    const wanted = search.value.trim().toLowerCase();
    shown = [];
    let matching = 0;
    rows.forEach((d, i) => {
      const keep = !hidden.has(d.action) && (!wanted || haystack(i).includes(wanted));
      if (keep) matching++;
      if (keep || open.has(i)) shown.push(i);   /* an opened row is never hidden */
    });
    $("shown").textContent = matching === rows.length ? num(matching) + " rows"
      : num(matching) + " of " + num(rows.length) + " rows";
    $("nothing").hidden = shown.length > 0;
    if (placeOf(active) < 0 && shown.length) active = shown[0];
    draw();
  };
  const filters = () => {
    const counts = new Map();
    for (const d of rows) counts.set(d.action, (counts.get(d.action) || 0) + 1);
    const order = [...ACTIONS.filter((a) => counts.has(a)),
      ...[...counts.keys()].filter((a) => !known.has(a))];
    $("filters").replaceChildren(...order.map((action) => {
      const chip = make("button", "chip " + tone(action), action);
      chip.type = "button";
      chip.dataset.action = action;
      chip.setAttribute("aria-pressed", String(!hidden.has(action)));
      chip.append(make("span", "", num(counts.get(action))));
      chip.title = MEANINGS[action] || "";
      chip.addEventListener("click", () => {
        const on = chip.getAttribute("aria-pressed") === "true";
        chip.setAttribute("aria-pressed", String(!on));
        if (on) hidden.add(action); else hidden.delete(action);
        apply();
      });
      return chip;
    }));
    $("meaning-list").replaceChildren(...order.map((action) => {
      const item = make("li", tone(action));
      item.append(make("i"), make("b", "", action), " " + (MEANINGS[action] || ""));
      return item;
    }));
  };

  list.addEventListener("click", (event) => {
    const button = event.target.closest(".row");
    if (!button) return;
    const i = Number(button.id.slice(4));
    focusRow(i);
    toggle(i);
  });
  search.addEventListener("input", apply);
  $("reset").addEventListener("click", () => {
    search.value = "";
    hidden.clear();
    filters();
    apply();
  });
  const onRow = () => document.activeElement && document.activeElement.classList.contains("row");
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.tagName === "INPUT" && event.target.type !== "range";
    if (event.key === "Escape") {
      if (typing) { search.value = ""; apply(); focusRow(active); } else if (rows[active]) {
        toggle(active, false);
        focusRow(active);
      }
      return;
    }
    if (typing) {
      if (event.target === search && (event.key === "Enter" || event.key === "ArrowDown")) {
        event.preventDefault();
        edge(false);
      }
      return;
    }
    const inText = event.target.tagName === "PRE";
    const arrows = !inText && (onRow() || event.target === document.body);
    const go = {
      j: () => step(1), k: () => step(-1), g: () => edge(false), G: () => edge(true),
      c: () => goTo("cut"), p: () => goTo("prefix-end"), "/": () => search.focus(),
      ...(arrows ? { ArrowDown: () => step(1), ArrowUp: () => step(-1),
        Home: () => edge(false), End: () => edge(true),
        ArrowRight: () => toggle(active, true), ArrowLeft: () => toggle(active, false) } : {}),
    }[event.key];
    if (go && rows.length) { event.preventDefault(); go(); }
  });

  return {
    /* Show other rows; places to go to come with them. */
    show(next, found, name) {
      rows = next;
      other = name || "";
      list.classList.toggle("two", Boolean(other));
      marks = new Map();
      for (const mark of found) marks.set(mark.after, [...(marks.get(mark.after) || []), mark]);
      haystacks.clear();
      open.clear();
      biggest = rows.reduce((m, d) => Math.max(m, d.tokens_before || 0, d.tokens_after || 0), 1);
      if (active >= rows.length) active = 0;
      compactions();
      filters();
      apply();
    },
    /* Open where it is interesting: at the cutoff, or else where the stable prefix ends. A phone
       stays at the top, because there the header would be scrolled away. */
    open() {
      if (getComputedStyle(scroller).overflowY !== "auto") return;
      if (!goTo("cut") && !goTo("prefix-end")) scroller.scrollTop = scroller.scrollHeight;
    },
    /* Show one row in the middle, where the header stays in sight. */
    lookAt(i) {
      if (getComputedStyle(scroller).overflowY === "auto" && reveal(i)) settle($("row-" + i), "center");
    },
    top() { scroller.scrollTop = 0; },
    goTo, focusRow, toggle,
  };
};

/* Where the cutoff is and where the stable prefix ends, as marks after a row. */
const marksOf = (rows, prefixEntries, prefixTokens) => {
  const found = [];
  let cut = -1;
  let stable = -1;
  rows.forEach((d, i) => {
    const saysSomething = d.before || (d.tool_calls || []).length;
    if (d.index != null && d.gone && saysSomething) cut = i;
    if (d.position != null && d.position < prefixEntries) stable = i;
  });
  if (cut >= 0) {
    found.push({ id: "cut", kind: "cut", after: cut, short: "Cutoff", label: "the cutoff",
      note: "from here on the view shows what was said" });
  }
  if (stable >= 0) {
    found.push({ id: "prefix-end", kind: "stable", after: stable, short: "End of prefix",
      label: "stable prefix ends here",
      note: num(prefixTokens) + " tokens the next call repeats unless the cutoff moves" });
  }
  return found;
};

const themeButton = () => {
  const themes = ["auto", "light", "dark"];
  let theme = 0;
  $("theme").addEventListener("click", () => {
    theme = (theme + 1) % themes.length;
    document.documentElement.dataset.theme = themes[theme];
    $("theme-name").textContent = themes[theme][0].toUpperCase() + themes[theme].slice(1);
    $("theme").setAttribute("aria-label", "Colour theme: " + themes[theme]);
  });
};

/* Large pages carry their data compressed. */
const readData = async () => {
  const block = $("report");
  if (!block.dataset.encoding) return JSON.parse(block.textContent);
  const packed = Uint8Array.from(atob(block.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
};

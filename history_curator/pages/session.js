/* A session: every call of a conversation, under one policy or two side by side. */
const showSession = (data) => {
  const { entries, calls, policies } = data;
  const last = calls.length - 1;
  const timeline = Timeline();
  let call = last;
  let since = -1;
  let main = 0;
  if (isPhone()) $("more").open = false;
  const times = (n, what) => num(n) + " " + what + (n === 1 ? "" : "s");
  const money = (n) => n.toFixed(3);

  /* A view is what it keeps of the view before it and what it adds: 3 is message 3 as recorded,
     -1 is the first form (an edited or inserted message) of the policy. */
  for (const policy of policies) {
    let view = [];
    let cost = 0;
    policy.seen = new Array(entries.length).fill(-1);
    policy.views.forEach((each, k) => {
      view = [...view.slice(0, each.keep), ...each.add];
      each.refs = view;
      cost += each.cost;
      each.sofar = cost;
      for (const ref of view) {
        const index = ref >= 0 ? ref : policy.forms[-1 - ref].index;
        if (index != null) policy.seen[index] = k;
      }
    });
    policy.compactions = policy.views.flatMap((each, k) => each.compacted ? [k] : []);
    policy.needed = new Map();
    for (const need of policy.lost) {
      for (const source of need.sources) {
        if (!policy.needed.has(source)) policy.needed.set(source, []);
        policy.needed.get(source).push(need.call);
      }
    }
  }

  /* What is wrong with a request, for every policy and call. */
  for (const policy of policies) {
    policy.wrong = policy.views.map((view, k) => {
      if (view.failed) return ["has no request: " + view.failed];
      let asked = calls[k] - 1;
      while (asked >= 0 && !(entries[asked].role === "user" && entries[asked].text)) asked--;
      const isShown = asked < 0 || view.refs.some((ref) =>
        (ref >= 0 ? ref : policy.forms[-1 - ref].index) === asked);
      return [...(isShown ? [] : ["leaves out the question (message " + entries[asked].message + ")"]),
        ...(view.fault ? ["is invalid (" + view.fault.replaceAll("; ", ", ") + ")"] : [])];
    });
    policy.bad = policy.views.flatMap((_, k) => policy.wrong[k].length ? [k] : []);
  }

  /* The call that tells the most: where one policy is at fault and the other is not, or else where
     most is missing that was needed. */
  const tellingCall = () => {
    let best = last;
    let most = 1;
    for (let k = 0; k <= last; k++) {
      const counts = policies.map((policy) => policy.wrong[k].length);
      const least = policies.length > 1 ? Math.min(...counts) : 0;
      const missing = policies[0].lost.filter((need) => need.call === k).length;
      const worth = 1000 * (Math.max(...counts) - least) + 10 * missing +
        (policies[0].views[k].tokens || 0) / 1e7;
      if (worth > most) { best = k; most = worth; }
    }
    return best;
  };
  const ranges = (numbers) => {
    const runs = [];
    for (const n of numbers) {
      const run = runs[runs.length - 1];
      if (run && run[1] === n - 1) run[1] = n; else runs.push([n, n]);
    }
    const words = runs.map(([a, b]) => a === b ? String(a + 1) : (a + 1) + "–" + (b + 1));
    return words.slice(0, 6).join(", ") + (words.length > 6 ? ", …" : "");
  };
  const story = () => {
    const bad = policies.filter((policy) => policy.wrong[call].length);
    const good = policies.filter((policy) => !policy.wrong[call].length);
    const names = good.map((policy) => policy.name).join(" and ");
    const fine = names && names + (good.length > 1 ? " hold" : " holds") +
      " the question and " + (good.length > 1 ? "keep" : "keeps") + " to the rules and the budget";
    const here = [bad.map((policy) => policy.name + " " + policy.wrong[call].join(" and ")).join("; "),
      fine].filter(Boolean);
    const whole = policies.filter((policy) => policy.bad.length).map((policy) => {
      const why = new Map();
      for (const k of policy.bad) {
        const word = policy.wrong[k][0].replace(/ \(message \d+\)/, "");
        why.set(word, (why.get(word) || 0) + 1);
      }
      const often = [...why].sort((a, b) => b[1] - a[1])[0][0];
      return num(policy.bad.length) + " of " + num(last + 1) + " calls of " + policy.name +
        " are at fault (" + ranges(policy.bad) + "), mostly because it " + often;
    });
    return "Call " + num(call + 1) + ": " + here.join(", while ") + ". " +
      (whole.length ? "In all, " + whole.join("; ") : "No call is at fault") + ".";
  };

  const shapeOf = (policy, k) => {
    const byIndex = new Map();
    const inserted = [];
    let before = -1;
    policy.views[k].refs.forEach((ref, position) => {
      const form = ref < 0 ? policy.forms[-1 - ref] : null;
      const index = form ? form.index : ref;
      if (index == null) inserted.push({ form, position, after: before });
      else { byIndex.set(index, { form, position }); before = index; }
    });
    return { byIndex, inserted };
  };
  const sentText = (entry, place) => place.form ? place.form.text : entry.text;

  const rowOf = (index, policy, k, shape) => {
    const entry = entries[index];
    const place = shape.byIndex.get(index);
    const row = { index, message: entry.message, role: entry.role, name: entry.name, before: entry.text,
      tokens_before: entry.tokens, tool_calls: entry.calls };
    if (!place) {
      const lastSeen = policy.seen[index];
      const reason = lastSeen >= 0 && lastSeen < k ? "last in view at call " + (lastSeen + 1)
        : lastSeen > k ? "not in view at this call" : "never in view";
      Object.assign(row, { action: "dropped", gone: true, reason, tokens_after: 0 });
      const needs = (policy.needed.get(index) || []).filter((at) => at >= k);
      if (needs.length) {
        row.needed = needs[0] === k ? "needed by this call" : "needed by call " + (needs[0] + 1);
      }
    } else if (place.form) {
      Object.assign(row, { action: place.form.action, reason: place.form.reason,
        after: place.form.text, tokens_after: place.form.tokens, position: place.position });
    } else {
      Object.assign(row, { action: "kept", same: true, tokens_after: entry.tokens,
        position: place.position });
    }
    return row;
  };

  const rowsAt = (policy, k) => {
    const shape = shapeOf(policy, k);
    const rows = [];
    let at = 0;
    const put = (after) => {
      while (at < shape.inserted.length && shape.inserted[at].after <= after) {
        const { form, position } = shape.inserted[at++];
        rows.push({ index: null, position, role: form.role, origin: form.origin || "note",
          action: form.action === "kept" ? "inserted" : form.action, reason: form.reason,
          after: form.text, tokens_after: form.tokens, form });
      }
    };
    put(-1);
    for (let index = 0; index < calls[k]; index++) {
      rows.push(rowOf(index, policy, k, shape));
      put(index);
    }
    put(Infinity);
    return rows;
  };

  /* What changed between two calls takes the place of the decisions. */
  const compared = (rows, policy, from) => {
    const old = shapeOf(policy, from);
    const notes = new Set(old.inserted.map((each) => each.form));
    const kept = [];
    for (const row of rows) {
      delete row.needed;
      if (row.index == null) {
        row.action = notes.delete(row.form) ? "same" : "entered";
      } else {
        const was = old.byIndex.get(row.index);
        const was_text = was && sentText(entries[row.index], was);
        const is_text = row.gone ? null : textAfter(row);
        if (!was && row.gone) continue;
        if (was && row.gone) row.action = "left";
        else if (!was) row.action = "entered";
        else if (was_text !== is_text) { row.action = "rewritten"; row.was = was_text; }
        else row.action = "same";
      }
      kept.push(row);
    }
    for (const form of notes) {
      kept.push({ index: null, role: form.role, origin: form.origin || "note", action: "left",
        reason: "was in the earlier view", before: form.text, tokens_before: form.tokens,
        tokens_after: 0 });
    }
    return kept;
  };

  const beside = (rows, policy, k) => {
    const shape = shapeOf(policy, k);
    for (const row of rows) {
      if (row.index == null) continue;
      const place = shape.byIndex.get(row.index);
      row.other = !place ? { action: "dropped", after: null, tokens_after: 0 }
        : place.form ? { action: place.form.action, after: place.form.text,
          tokens_after: place.form.tokens }
        : { action: "kept", after: null, tokens_after: entries[row.index].tokens };
    }
  };

  /* What the next call repeated; the last call has no next. */
  const prefixOf = (policy, k) => {
    const refs = policy.views[k].refs;
    const next = k < last ? policy.views[k + 1].keep : 0;
    const sum = refs.slice(0, next).reduce((s, ref) =>
      s + (ref >= 0 ? entries[ref].tokens : policy.forms[-1 - ref].tokens), 0);
    return [next, sum];
  };

  /* The calls as bars: cached below, new above, a tick at each compaction. Where there are more
     calls than bars, a bar shows the call that compacted, or else the largest. */
  const peak = 1.06 * policies.reduce((m, p) => p.views.reduce((most, each) =>
    Math.max(most, each.tokens || 0), Math.max(m, p.max_tokens || 0)), 1);
  const charts = policies.map((policy, number) => {
    const box = make("figure", "chart");
    const title = make("figcaption", "");
    const pick = make("button", "ghost", policy.name);
    pick.type = "button";
    pick.setAttribute("aria-pressed", String(number === main));
    pick.addEventListener("click", () => { main = number; update(); });
    title.append(pick, " " + times(policy.compactions.length, "compaction"));
    const bars = make("div", "bars");
    bars.setAttribute("role", "img");
    bars.setAttribute("aria-label", policy.name + ": tokens of each call, cached and new");
    const perBar = Math.max(1, Math.ceil(policy.views.length / 320));
    const count = Math.ceil(policy.views.length / perBar);
    if (count > 100) bars.classList.add("close");
    for (let k = 0; k < policy.views.length; k += perBar) {
      const some = policy.views.slice(k, k + perBar);
      const compacted = some.findIndex((each) => each.compacted);
      const tallest = some.reduce((w, each) => (each.tokens || 0) > (w.tokens || 0) ? each : w);
      const drawn = compacted < 0 ? tallest : some[compacted];
      const bar = make("b", "");
      bar.dataset.call = k + some.indexOf(drawn);
      bar.style.setProperty("--cached", percent(drawn.cached || 0, peak));
      bar.style.setProperty("--all", percent(drawn.tokens || 0, peak));
      bars.append(bar);
    }
    for (const k of policy.compactions) {
      const tick = make("i", "compaction");
      tick.style.left = percent(Math.floor(k / perBar) + 0.5, count);
      bars.append(tick);
    }
    if (policy.max_tokens) {
      const line = make("i", "limit");
      line.style.bottom = percent(policy.max_tokens, peak);
      line.title = "budget " + num(policy.max_tokens);
      bars.append(line);
    }
    bars.addEventListener("click", (event) => {
      const bar = event.target.closest("b");
      if (bar) { call = Number(bar.dataset.call); main = number; update(); }
    });
    box.append(title, bars);
    return { box, bars, pick, perBar };
  });
  $("charts").append(...charts.map((chart) => chart.box));

  const numbers = () => {
    $("numbers").replaceChildren(...policies.map((policy, number) => {
      const view = policy.views[call];
      const row = make("tr", number === main ? "main" : "");
      const lost = policy.lost.filter((need) => need.call <= call).length;
      const faults = policy.views.filter((each) => each.fault || each.failed).length;
      const cells = view.failed ? ["refused: " + view.failed, "–", "–"] :
        [num(view.tokens) + (policy.max_tokens ? " of " + num(policy.max_tokens) : ""),
          num(view.cached) + " (" + Math.round(100 * view.cached / Math.max(1, view.tokens)) + "%)",
          num(view.tokens - view.cached)];
      row.append(make("th", "", policy.name), ...cells.map((text) => make("td", "", text)),
        make("td", "", money(view.sofar)), make("td", "", money(policy.views[last].sofar)),
        make("td", "", num(lost) + " of " + num(policy.views.reduce((sum, each) => sum + each.needed, 0))),
        make("td", faults ? "bad" : "", num(faults)));
      for (const cell of row.children) cell.setAttribute("role", "cell");
      row.firstChild.setAttribute("role", "rowheader");
      row.setAttribute("role", "row");
      return row;
    }));
  };
  const lostList = () => {
    const policy = policies[main];
    $("lost").hidden = !policy.lost.length;
    $("lost-title").textContent = times(policy.lost.length, "time") +
      " something had left the view of " + policy.name + " and was needed later";
    $("lost-list").replaceChildren(...policy.lost.slice(0, 300).map((need) => {
      const button = make("button", "ghost",
        "call " + num(need.call + 1) + ": " + need.value.slice(0, 60));
      button.type = "button";
      button.addEventListener("click", () => {
        call = need.call;
        since = -1;
        update();
        const source = need.sources[need.sources.length - 1];
        const at = shownRows.findIndex((row) => row.index === source);
        if (at >= 0) { timeline.focusRow(at, "center"); timeline.toggle(at, true); }
      });
      return button;
    }));
  };

  let shownRows = [];
  const update = () => {
    const policy = policies[main];
    const view = policy.views[call];
    $("call").value = call + 1;
    const name = "call " + num(call + 1) + " of " + num(last + 1);
    $("call").setAttribute("aria-valuetext", name);
    $("call-name").textContent = name + (view.compacted ? " · the view was compacted" : "");
    $("story").textContent = story();
    $("since").max = last + 1;
    $("since").value = since < 0 ? "" : since + 1;
    charts.forEach((chart, number) => {
      chart.pick.setAttribute("aria-pressed", String(number === main));
      for (const bar of chart.bars.querySelectorAll(".here")) bar.classList.remove("here");
      chart.bars.children[Math.floor(call / chart.perBar)]?.classList.add("here");
    });
    numbers();
    lostList();
    shownRows = rowsAt(policy, call);
    const marks = marksOf(shownRows, ...prefixOf(policy, call));
    if (since >= 0 && since !== call) {
      shownRows = compared(shownRows, policy, since);
      marks.length = 0;
    } else if (policies.length > 1) beside(shownRows, policies[main ? 0 : 1], call);
    timeline.show(shownRows, marks, policies.length > 1 ? policies[main ? 0 : 1].name : "");
    if (marks.length || since < 0) timeline.open(); else timeline.top();
  };
  const go = (to) => { call = Math.max(0, Math.min(last, to)); update(); };
  const stepCompaction = (by) => {
    const compactions = policies[main].compactions;
    const to = by > 0 ? compactions.find((k) => k > call) : compactions.filter((k) => k < call).pop();
    if (to != null) go(to);
  };
  if (policies.length > 1) $("legend").append(make("li", "",
    "two marks: the policy picked, then the other"));
  $("call").max = last + 1;
  $("call").addEventListener("input", (event) => go(Number(event.target.value) - 1));
  $("since").addEventListener("change", (event) => {
    since = Math.max(0, Math.min(last + 1, Number(event.target.value) || 0)) - 1;
    update();
  });
  $("call-back").addEventListener("click", () => go(call - 1));
  $("call-on").addEventListener("click", () => go(call + 1));
  $("compaction-back").addEventListener("click", () => stepCompaction(-1));
  $("compaction-on").addEventListener("click", () => stepCompaction(1));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT") return;
    const act = { "[": () => stepCompaction(-1), "]": () => stepCompaction(1), ",": () => go(call - 1),
      ".": () => go(call + 1) }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  for (const key of document.querySelectorAll(".of-session")) key.hidden = false;
  if (!calls.length) return;
  call = tellingCall();
  update();
  const asked = Math.max(...policies.flatMap((policy) =>
    policy.wrong[call].flatMap((each) => each.match(/question \(message (\d+)/)?.[1] ?? [])), -1);
  const row = shownRows.findIndex((each) => each.message === asked && each.role === "user");
  if (row >= 0) timeline.lookAt(row);
};

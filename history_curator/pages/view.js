/* One view: the budget as a bar, and every decision. */
const showView = (data) => {
  const rows = data.decisions || [];
  for (const d of rows) d.gone = d.position == null && d.action === "dropped" && d.manager !== "rules";
  const changes = ACTIONS.filter((action) => action !== "kept").flatMap((action) => {
    const some = rows.filter((d) => d.action === action);
    const reason = action === "dropped" && some.length ? " (" + some[0].reason + ")" : "";
    return some.length ? [num(some.length) + " " + action + reason] : [];
  });
  $("story").textContent = !changes.length ? "The model gets every message as it was recorded."
    : "The model gets " + num(data.sent) + " messages" + (data.sent === data.given ? ""
      : " instead of " + num(data.given)) + ": " + changes.join(", ") + ".";
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
  const timeline = Timeline();
  timeline.show(rows, marksOf(rows, data.prefix_entries || 0, data.prefix_tokens));
  timeline.open();
};

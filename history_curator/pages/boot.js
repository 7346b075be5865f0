(async () => {
  const started = performance.now();
  const data = await readData();
  themeButton();
  if (data.kind === "session") showSession(data); else showView(data);
  document.documentElement.dataset.ready = (performance.now() - started).toFixed(1);
})();

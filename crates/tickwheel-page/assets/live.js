// The live stream: one aggregate event twice a second, with reconnect, a visible state and a pause.

import { setClock, texts } from "./show.js";

const RETRY_MS = [500, 1000, 2000, 5000];

/** Follows the server and calls `show` with each event. */
export function follow(show) {
  const state = document.getElementById("live-state");
  const text = document.getElementById("live-text");
  const button = document.getElementById("live-pause");
  let source = null;
  let isPaused = false;
  let failures = 0;
  let timer = 0;
  let watchdog = 0;

  function shown(kind) {
    const name = kind === "lost" ? texts.disconnected : kind === "live" ? texts.live
      : kind === "paused" ? texts.paused : texts.connecting;
    state.className = `state ${kind}`;
    state.dataset.state = kind;
    state.hidden = false;
    if (text.textContent !== name) text.textContent = name;
  }

  function close() {
    clearTimeout(timer);
    clearTimeout(watchdog);
    source?.close();
    source = null;
  }

  function lost() {
    close();
    shown("lost");
    timer = setTimeout(open, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
    failures += 1;
    // A token that was removed ends the stream: the server then asks to sign in.
    fetch("/page/wheel", { cache: "no-store" })
      .then((answer) => { if (answer.status === 401) location.reload(); })
      .catch(() => {});
  }

  // The server sends two events in a second: a silent connection is a dead one.
  function watch() {
    clearTimeout(watchdog);
    watchdog = setTimeout(lost, 8000);
  }

  function open() {
    close();
    if (isPaused || document.hidden) return;
    if (failures === 0) shown("connecting");
    source = new EventSource("/page/live");
    watch();
    source.addEventListener("live", (event) => {
      failures = 0;
      watch();
      shown("live");
      const data = JSON.parse(event.data);
      setClock(data.overview.at_ms);
      show(data);
    });
    source.onerror = lost;
  }

  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.setAttribute("aria-pressed", String(isPaused));
    button.textContent = isPaused ? texts.resume : texts.pause;
    document.dispatchEvent(new CustomEvent("tickwheel:pause", { detail: isPaused }));
    if (isPaused) {
      close();
      shown("paused");
    } else {
      failures = 0;
      open();
    }
  });
  // A hidden page closes its stream, so that it costs the server nothing.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else if (!isPaused) open();
  });
  addEventListener("pagehide", close);
  open();
}

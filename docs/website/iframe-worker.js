// Search of the site in pages opened from disk (file://), where browsers start no worker: the worker's script runs
// in a hidden frame instead. The site's theme uses the constructor, postMessage and the event "message" only.
if (location.protocol === "file:") {
  window.Worker = class IFrameWorker extends EventTarget {
    #frame = document.createElement("iframe");
    #waiting = []; // messages from before the script was loaded; null afterwards

    constructor(url) {
      super();
      this.#frame.hidden = true;
      this.#frame.addEventListener("load", () => this.#start(url), { once: true });
      document.body.append(this.#frame);
    }

    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data);
      else this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    #start(url) {
      const inner = this.#frame.contentWindow;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inner.document.createElement("script");
      script.src = url;
      script.addEventListener("load", () => {
        const waiting = this.#waiting;
        this.#waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      });
      inner.document.body.append(script);
    }
  };
}

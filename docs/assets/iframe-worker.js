// Search from the disk: a browser starts no worker for a page that it read from a file. There the
// worker's script runs in a hidden frame instead, which takes and sends the same messages.
function actAsWorker() {
  window.postMessage = (data) =>
    parent.dispatchEvent(new MessageEvent("message", { data, source: window }))
  const load = (src) => new Promise((onload, onerror) =>
    document.body.append(Object.assign(document.createElement("script"), { src, onload, onerror })))
  window.importScripts = (...scripts) =>
    scripts.reduce((before, script) => before.then(() => load(script)), Promise.resolve())
}

class FrameWorker extends EventTarget {
  constructor(script) {
    super()
    const frame = Object.assign(document.createElement("iframe"), { hidden: true })
    document.body.append(frame)
    this.scope = frame.contentWindow
    this.ready = new Promise((loaded) => { frame.onload = loaded })
    window.addEventListener("message", ({ source, data }) => {
      if (source === this.scope) this.dispatchEvent(new MessageEvent("message", { data }))
    })
    const end = "</scr" + "ipt>"
    const inside = this.scope.document
    inside.open()
    inside.write(`<body><script>${actAsWorker};actAsWorker()${end}<script src="${script}">${end}`)
    inside.close()
  }

  postMessage(data) {
    this.ready.then(() => this.scope.dispatchEvent(new MessageEvent("message", { data })))
  }
}

if (location.protocol === "file:") window.Worker = FrameWorker

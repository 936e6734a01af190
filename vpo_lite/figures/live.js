// The module of a live figure. plotly's own widget is a text of 5 MB in the trait `_bundle`, which is
// imported when a view is drawn. As the widget's module it would be loaded with the model, and if
// that takes more than two seconds anywidget passes none of the kernel's messages on, for good: on a
// slow machine the figure would show its plots and never change.
// Two things are mended in plotly's widget. A view that was removed goes on listening and throws at
// each change: a cell that is run again would show a figure that stands still. Here a view hears only
// while it has a plot. And each view reports how it completed the figure, and the kernel forgets what
// a report names. A browser that opens a figure while it changes reports data of a moment ago: points
// and names would be lost for all browsers. Here no view reports; the kernel alone says what a figure
// holds.
async function load(source) {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const { default: widget, FigureView } = await import(url);
  URL.revokeObjectURL(url);
  const view = FigureView.prototype;
  for (const name of Object.getOwnPropertyNames(view).filter((name) => name.startsWith("do_"))) {
    const change = view[name];
    view[name] = function () { if (this.el.data) change.call(this); };
  }
  view._sendTraceDeltas = view._sendLayoutDelta = () => {};
  return widget;
}

const loaded = (globalThis.vpoFigures ??= new Map()); // a figure that is shown again is another module
export default {
  async render({ model, el }) {
    const source = model.get("_bundle");
    if (!loaded.has(source)) loaded.set(source, load(source));
    const widget = (await loaded.get(source))();
    widget.initialize({ model });
    return widget.render({ el });
  },
};

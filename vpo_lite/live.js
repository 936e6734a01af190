// Stands after the bundle of plotly's widget, as one module with it, and mends two things there.
// A view that was removed goes on listening and throws at each change, and the views after it are
// never told: a cell that is run again would show a figure that stands still. Here a view hears only
// while it has a plot.
// Each view reports how it completed the figure, and the kernel forgets what a report names. A
// browser that opens a figure while it changes reports data of a moment ago: points and names would
// be lost for all browsers. Here no view reports; the kernel alone says what a figure holds.
import(import.meta.url).then(({ FigureView }) => {
  const view = FigureView?.prototype ?? {};
  for (const name of Object.getOwnPropertyNames(view).filter((name) => name.startsWith("do_"))) {
    const change = view[name];
    view[name] = function () { if (this.el.data) change.call(this); };
  }
  view._sendTraceDeltas = view._sendLayoutDelta = () => {};
});

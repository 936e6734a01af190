// Stands after the bundle of plotly's widget, as one module with it. There, a view that was removed
// goes on listening and throws at each change, and the views after it are never told: a cell that is
// run again would show a figure that stands still. Here a view hears only while it has a plot.
import(import.meta.url).then(({ FigureView }) => {
  const view = FigureView?.prototype ?? {};
  for (const name of Object.getOwnPropertyNames(view).filter((name) => name.startsWith("do_"))) {
    const change = view[name];
    view[name] = function () { if (this.el.data) change.call(this); };
  }
});

"""What ipywidgets does not tell a screen reader: names, values in words, and what changed."""

import sys
from functools import cache
from pathlib import Path


def named(box):
    """The same box of widgets. A screen reader now names its sliders by their descriptions. Focus
    and chosen button show in every theme. The text beside a slider of choices cannot be edited,
    since ipywidgets ignores what is typed. Without `custom_widgets` the box stays as it is.

    >>> from ipywidgets import IntSlider, VBox
    >>> box = named(VBox([IntSlider(description="m")]))
    >>> [type(child).__name__ for child in box.children]
    ['IntSlider', 'Names']
    """
    if custom_widgets():
        for slider in _of_choices(box):
            slider.add_class("named-choice")
        box.children = (*box.children, _names()(layout={"display": "none"}))
        box.add_class("vpo-named")
    return box


def _of_choices(widget):
    if type(widget).__name__ == "SelectionSlider":  # this module loads no ipywidgets
        yield widget
    for child in getattr(widget, "children", ()):
        yield from _of_choices(child)


def custom_widgets() -> bool:
    """Whether the page can show more than the widgets of ipywidgets: anywidget is installed, and
    this is not Colab.
    """
    try:
        import anywidget  # noqa: F401
    except ImportError:
        return False
    return "google.colab" not in sys.modules


@cache
def _names():
    import anywidget

    class Names(anywidget.AnyWidget):
        """Invisible. It names the sliders and players of its box, and makes screen readers announce
        changes in elements with `data-said`.
        """

        _esm = Path(__file__).with_suffix(".js")
        _css = Path(__file__).with_suffix(".css")

    return Names

"""What ipywidgets does not tell a screen reader: names of sliders, and values in words."""

from pathlib import Path

import anywidget


class Names(anywidget.AnyWidget):
    """Nothing to see: it names the sliders, players and toggles of the box that holds it."""

    _esm = Path(__file__).with_suffix(".js")


def named(box):
    """The same box of widgets. A screen reader now tells its sliders by their descriptions.

    >>> from ipywidgets import IntSlider, VBox
    >>> box = named(VBox([IntSlider(description="m")]))
    >>> [type(child).__name__ for child in box.children]
    ['IntSlider', 'Names']
    """
    box.children = (*box.children, Names(layout={"display": "none"}))
    box.add_class("vpo-named")
    return box

"""Notebook 03 in a real browser: buttons and arrow keys walk, clicks draw, the front follows."""

from pathlib import Path

import browser_harness as harness
import pytest

import envs

NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "03_the_maze.ipynb"

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_play_and_draw_by_hand():
    with harness.server([NOTEBOOK]) as address, harness.browser() as context:
        notebook = harness.Page(context, address).open(NOTEBOOK.name, "doc/tree")
        notebook.run_all()
        page = notebook.page
        maze = envs.generate("lite-6x6", 1011)

        # one button for the focus, then arrow keys alone
        page.locator(".play button", has_text="again").click()
        route = maze.pareto_front().routes[0]
        for move in route:
            page.keyboard.press(
                {"U": "ArrowUp", "D": "ArrowDown", "L": "ArrowLeft", "R": "ArrowRight"}[move]
            )
        notebook.wait_text(
            ".play", "You are on E: completion 1.00, gold 1.00, diamond 0.00, avoid_lava 1.00"
        )
        assert notebook.kernel("print(player.route)").strip() == route
        page.keyboard.press("Backspace")
        notebook.wait_text(".play", f"{maze.budget - len(route) + 1} steps left")
        page.locator(".play button", has_text="again").click()
        page.locator(".play button", has_text="up").click()
        notebook.wait_text(".play", f"{maze.budget - 1} steps left")
        assert page.locator(".play svg circle").count() > 0

        # a wall on the square before E, by a click: the board, the table and Python agree
        board = page.locator(".vpo-board")
        board.locator("button.edit").click()
        board.locator("button", has_text="wall").click()
        board.locator("svg.maze").scroll_into_view_if_needed()
        square = board.locator('svg.maze [data-r="0"][data-c="4"]')
        assert maze.symbol((0, 4)) == "."
        square.click()
        drawn = maze.text[:8] + "#" + maze.text[9:]
        front = envs.Maze.from_text(drawn, 18).pareto_front()
        notebook.wait_text(".vpo-board figcaption", f"{len(front)} best results")
        assert notebook.kernel("print(canvas.text)").strip() == drawn
        assert page.locator(".widget-html table tr").count() == 1 + len(front)
        assert not notebook.wrong, notebook.wrong

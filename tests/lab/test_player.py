"""The player and the canvas of a maze, without a browser: what they refuse."""

import pytest

from envs import Maze
from vpo_lite.lab.player import Canvas, Player

SMALL = Maze.from_text("S G\nD E", budget=10)
TOO_MANY = Maze.from_text("S" + "G" * 9 + "\n" + "D" * 9 + "E")  # 18 items: no exact front


@pytest.mark.parametrize("kind", [Player, Canvas])
@pytest.mark.parametrize("wrong", ["S E", None, 3])
def test_only_a_maze_is_taken(kind, wrong):
    with pytest.raises(ValueError, match=r"^maze = .*: expected a Maze, say envs\.Maze\.from_text"):
        kind(wrong)


def test_a_canvas_refuses_a_first_maze_without_an_exact_front_and_a_later_one_in_its_note():
    with pytest.raises(ValueError, match="18") as found:
        Canvas(TOO_MANY)
    canvas = Canvas(SMALL)
    canvas.draw(TOO_MANY.text)
    assert canvas.note == str(found.value) and "\n" not in canvas.note
    assert canvas.maze == SMALL and canvas.front.rewards.tolist() == [[1, 1, 1, 1]]
    canvas.draw("S . E")
    assert canvas.note == "" and canvas.text == "S . E"
    assert canvas.front.rewards.tolist() == [[1, 0, 0, 1]]
